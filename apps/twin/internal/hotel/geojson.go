package hotel

import (
	"context"

	"apps/internal/hotel/pb/profile"
)

// featureCollection is a GeoJSON answer (RFC 7946) with one point a hotel.
type featureCollection struct {
	Type     string    `json:"type"`
	Features []feature `json:"features"`
}

type feature struct {
	Type       string     `json:"type"`
	ID         string     `json:"id"`
	Properties properties `json:"properties"`
	Geometry   geometry   `json:"geometry"`
}

type properties struct {
	Name        string `json:"name"`
	PhoneNumber string `json:"phone_number"`
}

type geometry struct {
	Type        string     `json:"type"`
	Coordinates [2]float64 `json:"coordinates"` // longitude, latitude
}

// collection looks the hotels up and draws them.
func (f *frontend) collection(ctx context.Context, ids []string, locale string) (any, error) {
	if locale == "" {
		locale = "en"
	}
	profiles, err := f.profile.GetProfiles(ctx, &profile.Request{HotelIds: ids, Locale: locale})
	if err != nil {
		return nil, &failure{srvProfile, err}
	}
	answer := featureCollection{Type: "FeatureCollection", Features: []feature{}}
	for _, hotel := range profiles.GetHotels() {
		answer.Features = append(answer.Features, feature{
			Type: "Feature", ID: hotel.GetId(),
			Properties: properties{Name: hotel.GetName(), PhoneNumber: hotel.GetPhoneNumber()},
			Geometry:   geometry{Type: "Point", Coordinates: [2]float64{hotel.GetAddress().GetLon(), hotel.GetAddress().GetLat()}},
		})
	}
	return answer, nil
}
