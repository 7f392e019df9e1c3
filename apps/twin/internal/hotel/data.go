package hotel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

const hotelCount = 80

// downtown are the six hotels with an address of their own; the others lie on a line to the north-east.
var downtown = []struct {
	name, street, number string
	lat, lon             float64
	rate, price          float64
}{
	{"Hotel Geary", "Geary St", "495", 37.7867, -122.4112, 109, 150},
	{"Third Street Hotel", "3rd St", "181", 37.7854, -122.4005, 139, 120},
	{"Fifth Street Hotel", "5th St", "55", 37.7854, -122.4071, 109, 190},
	{"Embarcadero Inn", "Mission St", "8", 37.7936, -122.3930, 129, 160},
	{"Eddy Street Lodge", "Eddy St", "601", 37.7831, -122.4181, 119, 140},
	{"Grand Minna", "3rd St", "125", 37.7863, -122.4015, 149, 200},
}

func hotelID(i int) string { return strconv.Itoa(i) }

func position(i int) (lat, lon float64) {
	if i <= len(downtown) {
		return downtown[i-1].lat, downtown[i-1].lon
	}
	return 37.7835 + float64(i)/500*3, -122.41 + float64(i)/500*4
}

// point is a row of geo-db.geo.
type point struct {
	HotelID string  `bson:"hotelId"`
	Lat     float64 `bson:"lat"`
	Lon     float64 `bson:"lon"`
}

func seedPoints() []point {
	points := make([]point, 0, hotelCount)
	for i := 1; i <= hotelCount; i++ {
		lat, lon := position(i)
		points = append(points, point{HotelID: hotelID(i), Lat: lat, Lon: lon})
	}
	return points
}

// profileRow is a row of profile-db.hotels.
type profileRow struct {
	ID          string     `bson:"id" json:"id"`
	Name        string     `bson:"name" json:"name"`
	PhoneNumber string     `bson:"phoneNumber" json:"phoneNumber"`
	Description string     `bson:"description" json:"description"`
	Address     addressRow `bson:"address" json:"address"`
}

type addressRow struct {
	StreetNumber string  `bson:"streetNumber" json:"streetNumber"`
	StreetName   string  `bson:"streetName" json:"streetName"`
	City         string  `bson:"city" json:"city"`
	State        string  `bson:"state" json:"state"`
	Country      string  `bson:"country" json:"country"`
	PostalCode   string  `bson:"postalCode" json:"postalCode"`
	Lat          float64 `bson:"lat" json:"lat"`
	Lon          float64 `bson:"lon" json:"lon"`
}

func seedProfiles() []profileRow {
	rows := make([]profileRow, 0, hotelCount)
	for i := 1; i <= hotelCount; i++ {
		lat, lon := position(i)
		row := profileRow{
			ID: hotelID(i), Name: "Bay Hotel " + hotelID(i), PhoneNumber: fmt.Sprintf("(415) 555-%04d", 100+i),
			Description: "Quiet rooms near the bay, breakfast included, ten minutes to the station.",
			Address: addressRow{
				StreetNumber: strconv.Itoa(100 + i), StreetName: "Bay St", City: "San Francisco", State: "CA",
				Country: "United States", PostalCode: "94102", Lat: lat, Lon: lon,
			},
		}
		if i <= len(downtown) {
			hotel := downtown[i-1]
			row.Name, row.Address.StreetName, row.Address.StreetNumber = hotel.name, hotel.street, hotel.number
		}
		rows = append(rows, row)
	}
	return rows
}

// planRow is a row of rate-db.inventory.
type planRow struct {
	HotelID  string  `bson:"hotelId" json:"hotelId"`
	Code     string  `bson:"code" json:"code"`
	InDate   string  `bson:"inDate" json:"inDate"`
	OutDate  string  `bson:"outDate" json:"outDate"`
	RoomType roomRow `bson:"roomType" json:"roomType"`
}

type roomRow struct {
	BookableRate       float64 `bson:"bookableRate" json:"bookableRate"`
	TotalRate          float64 `bson:"totalRate" json:"totalRate"`
	TotalRateInclusive float64 `bson:"totalRateInclusive" json:"totalRateInclusive"`
	Code               string  `bson:"code" json:"code"`
	Description        string  `bson:"roomDescription" json:"roomDescription"`
}

// seedPlans gives a plan to hotels 1 to 3 and to every third one from 9 to 78.
func seedPlans() []planRow {
	var plans []planRow
	for i := 1; i < hotelCount-1; i++ {
		if i > 3 && (i < 9 || i%3 != 0) {
			continue
		}
		rate, inclusive := roomPrice(i)
		out := "2015-04-10"
		if i > 3 && i%2 == 0 {
			out = "2015-04-17"
		}
		plans = append(plans, planRow{
			HotelID: hotelID(i), Code: "RACK", InDate: "2015-04-09", OutDate: out,
			RoomType: roomRow{BookableRate: rate, TotalRate: rate, TotalRateInclusive: inclusive, Code: "KNG", Description: "King sized bed"},
		})
	}
	return plans
}

// roomPrice is the nightly price of a hotel without and with tax.
func roomPrice(i int) (rate, inclusive float64) {
	if i <= len(downtown) {
		return downtown[i-1].rate, downtown[i-1].rate * 1.12
	}
	switch i % 5 {
	case 0:
		return 109, 123.17
	case 1:
		return 120, 140
	case 2:
		return 124, 144
	case 3:
		return 132, 158
	default:
		return 232, 258
	}
}

// pickRow is a row of recommendation-db.recommendation.
type pickRow struct {
	HotelID string  `bson:"hotelId"`
	Lat     float64 `bson:"lat"`
	Lon     float64 `bson:"lon"`
	Rate    float64 `bson:"rate"`
	Price   float64 `bson:"price"`
}

func seedPicks() []pickRow {
	rows := make([]pickRow, 0, hotelCount)
	for i := 1; i <= hotelCount; i++ {
		lat, lon := position(i)
		rate, price := 135.0, 179.0
		switch {
		case i <= len(downtown):
			rate, price = downtown[i-1].rate, downtown[i-1].price
		case i%3 == 0:
			rate, price = roomPrice(i)
		}
		rows = append(rows, pickRow{HotelID: hotelID(i), Lat: lat, Lon: lon, Rate: rate, Price: price})
	}
	return rows
}

// bookingRow is a row of reservation-db.reservation: rooms taken for one night.
type bookingRow struct {
	HotelID      string `bson:"hotelId"`
	CustomerName string `bson:"customerName"`
	InDate       string `bson:"inDate"`
	OutDate      string `bson:"outDate"`
	Number       int    `bson:"number"`
}

// capacityRow is a row of reservation-db.number.
type capacityRow struct {
	HotelID string `bson:"hotelId"`
	Rooms   int    `bson:"numberOfRoom"`
}

func seedBookings() []bookingRow {
	return []bookingRow{{HotelID: "4", CustomerName: "Alice", InDate: "2015-04-09", OutDate: "2015-04-10", Number: 1}}
}

func seedCapacities() []capacityRow {
	rows := make([]capacityRow, 0, hotelCount)
	for i := 1; i <= hotelCount; i++ {
		rooms := 200
		if i > len(downtown) {
			rooms = []int{200, 300, 250}[i%3]
		}
		rows = append(rows, capacityRow{HotelID: hotelID(i), Rooms: rooms})
	}
	return rows
}

// userRow is a row of user-db.user.
type userRow struct {
	Username string `bson:"username"`
	Password string `bson:"password"`
}

func seedUsers() []userRow {
	rows := make([]userRow, 0, 501)
	for i := 0; i <= 500; i++ {
		suffix := strconv.Itoa(i)
		rows = append(rows, userRow{Username: "Cornell_" + suffix, Password: hashPassword(strings.Repeat(suffix, 10))})
	}
	return rows
}

func hashPassword(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}
