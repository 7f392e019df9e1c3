package hotel

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "apps/internal/hotel/pb/reservation"
	"apps/internal/service"
	"apps/internal/store"
	"apps/internal/telemetry"
)

const (
	dateLayout = "2006-01-02"
	maxNights  = 366
)

type reservationServer struct {
	pb.UnimplementedReservationServer
	process  *service.Process
	database *store.Mongo
	cache    *store.Cache
}

func runReservation(ctx context.Context, process *service.Process) error {
	database := dialDatabase(ctx, process, "ReserveMongoAddress", "reservation-db", nil)
	err := seed(ctx, database, "number", "hotelId", seedCapacities(), func(r capacityRow) string { return r.HotelID })
	if err != nil {
		return err
	}
	err = seed(ctx, database, "reservation", "customerName", seedBookings(), func(r bookingRow) string { return r.CustomerName })
	if err != nil {
		return err
	}
	server := &reservationServer{process: process, database: database, cache: openCache(process, "ReserveMemcAddress")}
	return joinMesh(ctx, process).serve(ctx, "ReservePort", srvReservation, func(registrar *grpc.Server) {
		pb.RegisterReservationServer(registrar, server)
	})
}

// night is one hotel on one night; its key is also the cache's key of the rooms taken.
type night struct{ hotelID, in, out string }

func (n night) key() string { return n.hotelID + "_" + n.in + "_" + n.out }

func capacityKey(hotelID string) string { return hotelID + "_cap" }

// CheckAvailability implements the Reservation service.
func (s *reservationServer) CheckAvailability(ctx context.Context, request *pb.Request) (*pb.Result, error) {
	ids := request.GetHotelId()
	stays, err := nightsOf(ids, request.GetInDate(), request.GetOutDate())
	if err != nil {
		return nil, err
	}
	capacity, taken := s.capacities(ctx, ids), s.taken(ctx, stays)
	full := map[string]bool{}
	for _, stay := range stays {
		if taken[stay.key()]+int(request.GetRoomNumber()) > capacity[stay.hotelID] {
			full[stay.hotelID] = true
		}
	}
	result := &pb.Result{}
	for _, id := range ids {
		if !full[id] {
			result.HotelId = append(result.HotelId, id)
		}
	}
	return result, nil
}

// MakeReservation implements the Reservation service.
func (s *reservationServer) MakeReservation(ctx context.Context, request *pb.Request) (*pb.Result, error) {
	if len(request.GetHotelId()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "a hotel is needed")
	}
	ids := request.GetHotelId()[:1]
	stays, err := nightsOf(ids, request.GetInDate(), request.GetOutDate())
	if err != nil {
		return nil, err
	}
	rooms := int(request.GetRoomNumber())
	capacity, taken := s.capacities(ctx, ids), s.taken(ctx, stays)
	for _, stay := range stays {
		if taken[stay.key()]+rooms > capacity[stay.hotelID] {
			return &pb.Result{}, nil
		}
	}
	for _, stay := range stays {
		s.remember(stay.key(), taken[stay.key()]+rooms)
	}
	for _, stay := range stays {
		row := bookingRow{HotelID: stay.hotelID, CustomerName: request.GetCustomerName(), InDate: stay.in, OutDate: stay.out, Number: rooms}
		if err := s.database.Insert(context.WithoutCancel(ctx), "reservation", row); err != nil {
			telemetry.Panic(s.process.Log, "reservation database failed", err)
		}
	}
	return &pb.Result{HotelId: ids}, nil
}

// capacities gives the rooms of each hotel; a hotel that is not in the books has none.
func (s *reservationServer) capacities(ctx context.Context, ids []string) map[string]int {
	return s.through(ids, capacityKey, func(id string) int {
		rows, err := store.Find[capacityRow](context.WithoutCancel(ctx), s.database, "number", bson.D{{Key: "hotelId", Value: id}})
		if err != nil {
			telemetry.Panic(s.process.Log, "reservation database failed", err)
		}
		if len(rows) == 0 {
			return 0
		}
		return rows[0].Rooms
	})
}

// taken gives the rooms booked, by the key of the night.
func (s *reservationServer) taken(ctx context.Context, stays []night) map[string]int {
	byKey := make(map[string]night, len(stays))
	keys := make([]string, 0, len(stays))
	for _, stay := range stays {
		byKey[stay.key()] = stay
		keys = append(keys, stay.key())
	}
	return s.through(keys, func(key string) string { return key }, func(key string) int {
		stay := byKey[key]
		rows, err := store.Find[bookingRow](context.WithoutCancel(ctx), s.database, "reservation", bson.D{
			{Key: "hotelId", Value: stay.hotelID}, {Key: "inDate", Value: stay.in}, {Key: "outDate", Value: stay.out}})
		if err != nil {
			telemetry.Panic(s.process.Log, "reservation database failed", err)
		}
		rooms := 0
		for _, row := range rows {
			rooms += row.Number
		}
		return rooms
	})
}

// through reads numbers from the cache, and those that are not there from the database, all at once.
func (s *reservationServer) through(names []string, keyOf func(string) string, load func(string) int) map[string]int {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = keyOf(name)
	}
	cached, err := s.cache.GetMulti(keys)
	if err != nil {
		telemetry.Panic(s.process.Log, "reservation cache failed", err)
	}
	numbers := make([]int, len(names))
	var misses sync.WaitGroup
	for i, key := range keys {
		if number, err := strconv.Atoi(string(cached[key])); err == nil {
			numbers[i] = number
			continue
		}
		misses.Go(func() {
			numbers[i] = load(names[i])
			s.remember(key, numbers[i])
		})
	}
	misses.Wait()
	found := make(map[string]int, len(names))
	for i, name := range names {
		found[name] = numbers[i]
	}
	return found
}

func (s *reservationServer) remember(key string, number int) {
	if err := s.cache.Set(key, []byte(strconv.Itoa(number))); err != nil {
		telemetry.Panic(s.process.Log, "reservation cache failed", err)
	}
}

// nightsOf lists the nights from in to out for each hotel. Dates that cannot be read give no nights.
func nightsOf(ids []string, in, out string) ([]night, error) {
	for _, id := range ids {
		if len(id) > 100 || strings.ContainsAny(id, " \t\r\n\x00") {
			return nil, status.Error(codes.InvalidArgument, "not a hotel id")
		}
	}
	from, errIn := time.Parse(dateLayout, in)
	until, errOut := time.Parse(dateLayout, out)
	if errIn != nil || errOut != nil {
		return nil, nil
	}
	if until.Sub(from) > maxNights*24*time.Hour {
		return nil, status.Error(codes.InvalidArgument, "stay is too long")
	}
	var nights []night
	for _, id := range ids {
		for day := from; day.Before(until); day = day.AddDate(0, 0, 1) {
			nights = append(nights, night{id, day.Format(dateLayout), day.AddDate(0, 0, 1).Format(dateLayout)})
		}
	}
	return nights, nil
}
