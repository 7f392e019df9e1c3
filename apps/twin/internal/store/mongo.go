// Package store reaches the datastores of a service: MongoDB by its wire protocol, and memcached.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

const dialTimeout = 10 * time.Second

// Login is a database user; it lives in the admin database.
type Login struct{ User, Password string }

// Mongo is one database of a server.
type Mongo struct{ db *mongo.Database }

// DialMongo connects to host:port and waits until the server answers, ten seconds at most. login may be nil.
func DialMongo(ctx context.Context, address, database string, login *Login) (*Mongo, error) {
	settings := options.Client().
		ApplyURI("mongodb://" + address).
		SetDirect(true).
		SetServerSelectionTimeout(dialTimeout).
		SetConnectTimeout(dialTimeout)
	if login != nil {
		settings.SetAuth(options.Credential{AuthSource: "admin", Username: login.User, Password: login.Password})
	}
	client, err := mongo.Connect(settings)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", address, err)
	}
	if err := client.Ping(ctx, nil); err != nil {
		return nil, fmt.Errorf("dial %q: %w", address, explain(err))
	}
	return &Mongo{db: client.Database(database)}, nil
}

// explain puts the usual short words before the driver's long ones.
func explain(err error) error {
	var selection topology.ServerSelectionError
	if errors.As(err, &selection) {
		return fmt.Errorf("no reachable servers: %w", err)
	}
	if code := Code(err); code == codeAuthenticationFailed {
		return fmt.Errorf("SASL authentication failed (code %d): %w", code, err)
	}
	return err
}

// Server codes that callers tell apart.
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
)

// Code is the server's error code, 0 when the error did not come from the server.
func Code(err error) int {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return 0
	}
	for _, code := range []int{codeAuthenticationFailed, codeUnauthorized} {
		if server.HasErrorCode(code) {
			return code
		}
	}
	return 0
}

// Seed inserts those rows whose key is not in the collection yet, and indexes the key.
func Seed[T any](ctx context.Context, m *Mongo, collection, key string, rows []T, keyOf func(T) string) error {
	table := m.db.Collection(collection)
	present, err := m.keys(ctx, table, key)
	if err != nil {
		return fmt.Errorf("read %s: %w", collection, err)
	}
	var missing []any
	for _, row := range rows {
		if !present[keyOf(row)] {
			missing = append(missing, row)
		}
	}
	if len(missing) > 0 {
		if _, err := table.InsertMany(ctx, missing); err != nil {
			return fmt.Errorf("seed %s: %w", collection, err)
		}
	}
	if _, err := table.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: key, Value: 1}}}); err != nil {
		return fmt.Errorf("index %s: %w", collection, err)
	}
	return nil
}

func (m *Mongo) keys(ctx context.Context, table *mongo.Collection, key string) (map[string]bool, error) {
	cursor, err := table.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: key, Value: 1}}))
	if err != nil {
		return nil, err
	}
	var rows []bson.M
	if err := cursor.All(ctx, &rows); err != nil {
		return nil, err
	}
	keys := map[string]bool{}
	for _, row := range rows {
		if value, ok := row[key].(string); ok {
			keys[value] = true
		}
	}
	return keys, nil
}

// Find reads all rows that match.
func Find[T any](ctx context.Context, m *Mongo, collection string, filter bson.D) ([]T, error) {
	cursor, err := m.db.Collection(collection).Find(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("find in %s: %w", collection, err)
	}
	var rows []T
	if err := cursor.All(ctx, &rows); err != nil {
		return nil, fmt.Errorf("find in %s: %w", collection, err)
	}
	return rows, nil
}

// Insert adds one row.
func (m *Mongo) Insert(ctx context.Context, collection string, row any) error {
	if _, err := m.db.Collection(collection).InsertOne(ctx, row); err != nil {
		return fmt.Errorf("insert into %s: %w", collection, err)
	}
	return nil
}
