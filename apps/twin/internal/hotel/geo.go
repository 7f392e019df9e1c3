package hotel

import (
	"cmp"
	"context"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/grpc"

	pb "apps/internal/hotel/pb/geo"
	"apps/internal/service"
	"apps/internal/store"
)

const (
	nearbyLimit  = 5
	nearbyKm     = 10.0
	earthKm      = 6371.0
	radianDegree = math.Pi / 180
)

type geoServer struct {
	pb.UnimplementedGeoServer
	points []point
}

// runGeo loads all points into memory; the database is not asked again.
func runGeo(ctx context.Context, process *service.Process) error {
	database := dialDatabase(ctx, process, "GeoMongoAddress", "geo-db", admin)
	if err := seed(ctx, database, "geo", "hotelId", seedPoints(), func(p point) string { return p.HotelID }); err != nil {
		return err
	}
	points, err := store.Find[point](ctx, database, "geo", bson.D{})
	if err != nil {
		return err
	}
	process.Log.Info("index built", "points", len(points))
	return joinMesh(ctx, process).serve(ctx, "GeoPort", srvGeo, func(server *grpc.Server) {
		pb.RegisterGeoServer(server, &geoServer{points: points})
	})
}

// Nearby implements the Geo service.
func (s *geoServer) Nearby(_ context.Context, request *pb.Request) (*pb.Result, error) {
	type candidate struct {
		id string
		km float64
	}
	var near []candidate
	for _, p := range s.points {
		if km := distanceKm(request.GetLat(), request.GetLon(), p.Lat, p.Lon); km <= nearbyKm {
			near = append(near, candidate{p.HotelID, km})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(a.km, b.km) })
	result := &pb.Result{}
	for _, hotel := range near[:min(len(near), nearbyLimit)] {
		result.HotelIds = append(result.HotelIds, hotel.id)
	}
	return result, nil
}

// distanceKm is the great-circle distance of two points in degrees.
func distanceKm(lat1, lon1, lat2, lon2 float64) float64 {
	dLat, dLon := (lat2-lat1)*radianDegree, (lon2-lon1)*radianDegree
	a := math.Pow(math.Sin(dLat/2), 2) + math.Cos(lat1*radianDegree)*math.Cos(lat2*radianDegree)*math.Pow(math.Sin(dLon/2), 2)
	return 2 * earthKm * math.Asin(math.Sqrt(min(a, 1)))
}
