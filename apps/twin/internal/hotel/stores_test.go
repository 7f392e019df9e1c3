package hotel

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"apps/internal/hotel/pb/profile"
	"apps/internal/hotel/pb/reservation"
	"apps/internal/store"
	"apps/internal/store/storetest"
)

func cacheOf(t *testing.T, server *storetest.Memcached) *store.Cache {
	t.Helper()
	cache, err := store.NewCache(server.Address, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// database is a database of its own on the server that TEST_MONGO_ADDRESS names; without one the test is skipped.
func database(t *testing.T) *store.Mongo {
	t.Helper()
	address := os.Getenv("TEST_MONGO_ADDRESS")
	if address == "" {
		t.Skip("TEST_MONGO_ADDRESS is not set")
	}
	made, err := store.DialMongo(t.Context(), address, fmt.Sprintf("test-%d", time.Now().UnixNano()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// panics tells whether do does.
func panics(do func()) (did bool) {
	defer func() { did = recover() != nil }()
	do()
	return false
}

func TestServicesThatLoseTheirCachePanic(t *testing.T) {
	server := storetest.NewMemcached(t)
	cache := cacheOf(t, server)
	server.Stop()
	plans := &planStore{process: process(t, "rate"), cache: cache}
	profiles := &profileServer{process: process(t, "profile"), cache: cache}
	bookings := &reservationServer{process: process(t, "reservation"), cache: cache}
	request := &reservation.Request{HotelId: []string{"1"}, InDate: "2015-04-09", OutDate: "2015-04-10", RoomNumber: 1}
	for name, call := range map[string]func(){
		"rate":        func() { plans.read(t.Context(), []string{"1"}) },
		"profile":     func() { _, _ = profiles.GetProfiles(t.Context(), &profile.Request{HotelIds: []string{"1"}}) },
		"reservation": func() { _, _ = bookings.CheckAvailability(t.Context(), request) },
		"booking":     func() { _, _ = bookings.MakeReservation(t.Context(), request) },
	} {
		if !panics(call) {
			t.Errorf("%s goes on", name)
		}
	}
}

func TestCachedPlansNeedNoDatabase(t *testing.T) {
	server := storetest.NewMemcached(t)
	server.Put("1", `[{"hotelId":"1","roomType":{"totalRate":109}}]`)
	server.Put("2", `null`)
	plans := &planStore{process: process(t, "rate"), cache: cacheOf(t, server)}
	if rows := plans.read(t.Context(), []string{"1", "2"}); len(rows) != 1 || rows[0].RoomType.TotalRate != 109 {
		t.Errorf("%+v", rows)
	}
}

func TestAvailabilityComparesEveryNightWithTheRooms(t *testing.T) {
	server := storetest.NewMemcached(t)
	for key, value := range map[string]string{
		"1_cap": "10", "2_cap": "10", "3_cap": "10",
		"1_2015-04-09_2015-04-10": "9", "1_2015-04-10_2015-04-11": "9",
		"2_2015-04-09_2015-04-10": "0", "2_2015-04-10_2015-04-11": "10",
		"3_2015-04-09_2015-04-10": "10", "3_2015-04-10_2015-04-11": "0",
	} {
		server.Put(key, value)
	}
	bookings := &reservationServer{process: process(t, "reservation"), cache: cacheOf(t, server)}
	ask := func(out string, rooms int32) []string {
		result, err := bookings.CheckAvailability(t.Context(), &reservation.Request{
			HotelId: []string{"1", "2", "3"}, InDate: "2015-04-09", OutDate: out, RoomNumber: rooms,
		})
		if err != nil {
			t.Fatal(err)
		}
		return result.GetHotelId()
	}
	if got := ask("2015-04-11", 1); !slices.Equal(got, []string{"1"}) {
		t.Errorf("two nights, one room: %v", got)
	}
	if got := ask("2015-04-10", 2); !slices.Equal(got, []string{"2"}) {
		t.Errorf("one night, two rooms: %v", got)
	}
	full, err := bookings.MakeReservation(t.Context(), &reservation.Request{
		HotelId: []string{"3"}, InDate: "2015-04-09", OutDate: "2015-04-11", RoomNumber: 1,
	})
	if err != nil || len(full.GetHotelId()) != 0 || server.Get("3_2015-04-10_2015-04-11") != "0" {
		t.Errorf("a full hotel was booked: %v %v", full, err)
	}
}

func TestSeedingAddsOnlyWhatIsMissing(t *testing.T) {
	db := database(t)
	rows := func() int {
		found, err := store.Find[point](t.Context(), db, "geo", bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for range 2 {
		if err := seed(t.Context(), db, "geo", "hotelId", seedPoints(), func(p point) string { return p.HotelID }); err != nil {
			t.Fatal(err)
		}
		if rows() != hotelCount {
			t.Errorf("%d rows", rows())
		}
	}
}

func TestBookingsCountInCacheAndDatabase(t *testing.T) {
	db, server := database(t), storetest.NewMemcached(t)
	rows := []capacityRow{{HotelID: "1", Rooms: 2}}
	if err := seed(t.Context(), db, "number", "hotelId", rows, func(r capacityRow) string { return r.HotelID }); err != nil {
		t.Fatal(err)
	}
	bookings := &reservationServer{process: process(t, "reservation"), database: db, cache: cacheOf(t, server)}
	request := &reservation.Request{CustomerName: "A", HotelId: []string{"1"}, InDate: "2015-04-09", OutDate: "2015-04-11", RoomNumber: 1}
	for n, want := range []int{1, 1, 0} {
		result, err := bookings.MakeReservation(t.Context(), request)
		if err != nil || len(result.GetHotelId()) != want {
			t.Fatalf("booking %d: %v %v", n, result, err)
		}
	}
	// A cache that lost everything is filled from the rows.
	emptied := &reservationServer{process: process(t, "reservation"), database: db, cache: cacheOf(t, storetest.NewMemcached(t))}
	result, err := emptied.CheckAvailability(context.Background(), request)
	if err != nil || len(result.GetHotelId()) != 0 {
		t.Errorf("full hotel is offered: %v %v", result, err)
	}
}

func TestPlansAreReadFromTheDatabaseOnceAndProfilesToo(t *testing.T) {
	db, server := database(t), storetest.NewMemcached(t)
	if err := seed(t.Context(), db, "inventory", "hotelId", seedPlans(), func(r planRow) string { return r.HotelID }); err != nil {
		t.Fatal(err)
	}
	plans := &planStore{process: process(t, "rate"), database: db, cache: cacheOf(t, server)}
	if rows := plans.read(t.Context(), []string{"1", "4", "9"}); len(rows) != 2 {
		t.Errorf("%+v", rows)
	}
	for deadline := time.Now().Add(2 * time.Second); server.Get("4") == "" || server.Get("9") == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("answers, the empty one too, are not written to the cache")
		}
	}
}
