package hotel

import (
	"context"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/grpc"

	pb "apps/internal/hotel/pb/recommendation"
	"apps/internal/service"
	"apps/internal/store"
)

type recommendationServer struct {
	pb.UnimplementedRecommendationServer
	process *service.Process
	hotels  []pickRow
}

func runRecommendation(ctx context.Context, process *service.Process) error {
	database := dialDatabase(ctx, process, "RecommendMongoAddress", "recommendation-db", nil)
	if err := seed(ctx, database, "recommendation", "hotelId", seedPicks(), func(r pickRow) string { return r.HotelID }); err != nil {
		return err
	}
	hotels, err := store.Find[pickRow](ctx, database, "recommendation", bson.D{})
	if err != nil {
		return err
	}
	process.Log.Info("hotels loaded", "hotels", len(hotels))
	return joinMesh(ctx, process).serve(ctx, "RecommendPort", srvRecommendation, func(server *grpc.Server) {
		pb.RegisterRecommendationServer(server, &recommendationServer{process: process, hotels: hotels})
	})
}

// GetRecommendations implements the Recommendation service: the nearest, the best rated or the cheapest, ties included.
func (s *recommendationServer) GetRecommendations(ctx context.Context, request *pb.Request) (*pb.Result, error) {
	switch request.GetRequire() {
	case "dis":
		return s.lowest(func(hotel pickRow) float64 {
			return distanceKm(request.GetLat(), request.GetLon(), hotel.Lat, hotel.Lon)
		}), nil
	case "rate":
		return s.lowest(func(hotel pickRow) float64 { return -hotel.Rate }), nil
	case "price":
		return s.lowest(func(hotel pickRow) float64 { return hotel.Price }), nil
	default:
		s.process.Log.WarnContext(ctx, "unknown recommendation criterion", "require", request.GetRequire())
		return &pb.Result{}, nil
	}
}

func (s *recommendationServer) lowest(of func(pickRow) float64) *pb.Result {
	least := math.Inf(1)
	for _, hotel := range s.hotels {
		least = min(least, of(hotel))
	}
	result := &pb.Result{}
	for _, hotel := range s.hotels {
		if of(hotel) == least {
			result.HotelIds = append(result.HotelIds, hotel.HotelID)
		}
	}
	return result
}
