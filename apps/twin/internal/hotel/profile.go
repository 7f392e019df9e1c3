package hotel

import (
	"context"
	"errors"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/grpc"

	pb "apps/internal/hotel/pb/profile"
	"apps/internal/service"
	"apps/internal/store"
	"apps/internal/telemetry"
)

var errNoProfile = errors.New("no such hotel")

type profileServer struct {
	pb.UnimplementedProfileServer
	process  *service.Process
	database *store.Mongo
	cache    *store.Cache
}

func runProfile(ctx context.Context, process *service.Process) error {
	database := dialDatabase(ctx, process, "ProfileMongoAddress", "profile-db", nil)
	if err := seed(ctx, database, "hotels", "id", seedProfiles(), func(r profileRow) string { return r.ID }); err != nil {
		return err
	}
	server := &profileServer{process: process, database: database, cache: openCache(process, "ProfileMemcAddress")}
	return joinMesh(ctx, process).serve(ctx, "ProfilePort", srvProfile, func(registrar *grpc.Server) {
		pb.RegisterProfileServer(registrar, server)
	})
}

// GetProfiles implements the Profile service. A failing cache ends the process; a failing database only leaves holes.
func (s *profileServer) GetProfiles(ctx context.Context, request *pb.Request) (*pb.Result, error) {
	ids := request.GetHotelIds()
	cached, err := s.cache.GetMulti(ids)
	if err != nil {
		telemetry.Panic(s.process.Log, "profile cache failed", err)
	}
	hotels := make([]*pb.Hotel, len(ids))
	var misses sync.WaitGroup
	for i, id := range ids {
		if value, hit := cached[id]; hit {
			hotels[i] = decodeCached[profileRow](s.process, id, value).message()
			continue
		}
		misses.Go(func() { hotels[i] = s.load(ctx, id).message() })
	}
	misses.Wait()
	return &pb.Result{Hotels: hotels}, nil
}

func (s *profileServer) load(ctx context.Context, id string) profileRow {
	ctx = context.WithoutCancel(ctx)
	rows, err := store.Find[profileRow](ctx, s.database, "hotels", bson.D{{Key: "id", Value: id}})
	if err == nil && len(rows) == 0 {
		err = errNoProfile
	}
	if err != nil {
		s.process.Log.ErrorContext(ctx, "could not read profile", "hotel", id, "error", err.Error())
		return profileRow{}
	}
	go writeBack(ctx, s.process, s.cache, id, rows[0])
	return rows[0]
}

func (r profileRow) message() *pb.Hotel {
	return &pb.Hotel{Id: r.ID, Name: r.Name, PhoneNumber: r.PhoneNumber, Description: r.Description, Address: &pb.Address{
		StreetNumber: r.Address.StreetNumber, StreetName: r.Address.StreetName, City: r.Address.City, State: r.Address.State,
		Country: r.Address.Country, PostalCode: r.Address.PostalCode, Lat: r.Address.Lat, Lon: r.Address.Lon,
	}}
}
