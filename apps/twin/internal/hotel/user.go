package hotel

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/grpc"

	pb "apps/internal/hotel/pb/user"
	"apps/internal/service"
	"apps/internal/store"
)

type userServer struct {
	pb.UnimplementedUserServer
	passwords map[string]string // user name -> hash
}

func runUser(ctx context.Context, process *service.Process) error {
	database := dialDatabase(ctx, process, "UserMongoAddress", "user-db", nil)
	if err := seed(ctx, database, "user", "username", seedUsers(), func(r userRow) string { return r.Username }); err != nil {
		return err
	}
	rows, err := store.Find[userRow](ctx, database, "user", bson.D{})
	if err != nil {
		return err
	}
	passwords := make(map[string]string, len(rows))
	for _, row := range rows {
		passwords[row.Username] = row.Password
	}
	process.Log.Info("users loaded", "users", len(passwords))
	return joinMesh(ctx, process).serve(ctx, "UserPort", srvUser, func(server *grpc.Server) {
		pb.RegisterUserServer(server, &userServer{passwords: passwords})
	})
}

// CheckUser implements the User service.
func (s *userServer) CheckUser(_ context.Context, request *pb.Request) (*pb.Result, error) {
	hash, known := s.passwords[request.GetUsername()]
	return &pb.Result{Correct: known && hash == hashPassword(request.GetPassword())}, nil
}
