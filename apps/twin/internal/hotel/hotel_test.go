package hotel

import (
	"slices"
	"testing"

	"apps/internal/hotel/pb/geo"
	"apps/internal/hotel/pb/recommendation"
	"apps/internal/hotel/pb/user"
)

func TestSeedsHaveTheirSizes(t *testing.T) {
	for name, pair := range map[string][2]int{
		"points": {len(seedPoints()), 80}, "profiles": {len(seedProfiles()), 80}, "plans": {len(seedPlans()), 27},
		"picks": {len(seedPicks()), 80}, "capacities": {len(seedCapacities()), 80}, "users": {len(seedUsers()), 501},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%d %s, not %d", pair[0], name, pair[1])
		}
	}
	capacities := seedCapacities()
	for id, rooms := range map[int]int{1: 200, 6: 200, 7: 300, 8: 250, 9: 200} {
		if capacities[id-1].Rooms != rooms {
			t.Errorf("hotel %d has %d rooms", id, capacities[id-1].Rooms)
		}
	}
}

func TestNearbyGivesTheNearestFive(t *testing.T) {
	server := &geoServer{points: seedPoints()}
	// Hotel 40 lies here; its neighbours are about 1 km apart.
	result, err := server.Nearby(t.Context(), &geo.Request{Lat: 37.7835 + 40.0/500*3, Lon: -122.41 + 40.0/500*4})
	if err != nil || len(result.GetHotelIds()) != 5 || result.GetHotelIds()[0] != "40" {
		t.Errorf("%v %v", result.GetHotelIds(), err)
	}
	far, err := server.Nearby(t.Context(), &geo.Request{Lat: 38.2, Lon: -122.25})
	if err != nil || len(far.GetHotelIds()) != 0 {
		t.Errorf("beyond ten kilometres: %v %v", far.GetHotelIds(), err)
	}
}

func TestDistance(t *testing.T) {
	if km := distanceKm(37, -122, 38, -122); km < 111.1 || km > 111.3 {
		t.Errorf("a degree of latitude is %g km", km)
	}
	if km := distanceKm(37.5, -122.5, 37.5, -122.5); km != 0 {
		t.Errorf("nowhere is %g km", km)
	}
}

func TestRecommendationsIncludeTies(t *testing.T) {
	server := &recommendationServer{process: process(t, "recommendation"), hotels: []pickRow{
		{HotelID: "1", Lat: 37, Lon: -122, Rate: 100, Price: 50}, {HotelID: "2", Lat: 38, Lon: -122, Rate: 120, Price: 40},
		{HotelID: "3", Lat: 39, Lon: -122, Rate: 120, Price: 40}, {HotelID: "4", Lat: 39, Lon: -122, Rate: 90, Price: 60},
	}}
	for require, want := range map[string][]string{"dis": {"3", "4"}, "rate": {"2", "3"}, "price": {"2", "3"}, "luck": nil} {
		result, err := server.GetRecommendations(t.Context(), &recommendation.Request{Require: require, Lat: 40, Lon: -122})
		if err != nil || !slices.Equal(result.GetHotelIds(), want) {
			t.Errorf("%s: %v %v", require, result.GetHotelIds(), err)
		}
	}
}

func TestSeededUsersCanLogIn(t *testing.T) {
	passwords := map[string]string{}
	for _, row := range seedUsers() {
		passwords[row.Username] = row.Password
	}
	server := &userServer{passwords: passwords}
	for _, c := range []struct {
		name, password string
		want           bool
	}{
		{"Cornell_0", "0000000000", true}, {"Cornell_12", "12121212121212121212", true},
		{"Cornell_12", "1212", false}, {"Cornell_501", "501501501501501501501501501501", false}, {"", "", false},
	} {
		result, err := server.CheckUser(t.Context(), &user.Request{Username: c.name, Password: c.password})
		if err != nil || result.GetCorrect() != c.want {
			t.Errorf("%s: %v %v", c.name, result.GetCorrect(), err)
		}
	}
}

func TestNights(t *testing.T) {
	nights, err := nightsOf([]string{"7", "8"}, "2015-04-29", "2015-05-02")
	if err != nil || len(nights) != 6 || nights[1].key() != "7_2015-04-30_2015-05-01" {
		t.Errorf("%v %v", nights, err)
	}
	for _, dates := range [][2]string{{"2015-04-09", "2015-04-09"}, {"2015-04-10", "2015-04-09"}, {"soon", "later"}, {"", ""}} {
		if nights, err := nightsOf([]string{"7"}, dates[0], dates[1]); err != nil || len(nights) != 0 {
			t.Errorf("%v: %v %v", dates, nights, err)
		}
	}
	if _, err := nightsOf([]string{"7"}, "0001-01-01", "9999-01-01"); err == nil {
		t.Error("a stay of ages was accepted")
	}
	if _, err := nightsOf([]string{"7 8"}, "2015-04-09", "2015-04-10"); err == nil {
		t.Error("an id that no cache takes was accepted")
	}
}
