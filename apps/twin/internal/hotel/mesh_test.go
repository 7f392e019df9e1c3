package hotel

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"apps/internal/consul"
	"apps/internal/hotel/pb/profile"
	"apps/internal/hotel/pb/recommendation"
	"apps/internal/hotel/pb/reservation"
	"apps/internal/hotel/pb/search"
	"apps/internal/hotel/pb/user"
	"apps/internal/registry"
	"apps/internal/rpc"
	"apps/internal/telemetry"
)

// The peers of the frontend, with answers that need no stores.
type (
	fakeSearch struct {
		search.UnimplementedSearchServer
		ids []string
	}
	fakeReservation struct {
		reservation.UnimplementedReservationServer
		full string
	}
	fakeProfile struct {
		profile.UnimplementedProfileServer
	}
)

func (s fakeSearch) Nearby(context.Context, *search.Request) (*search.Result, error) {
	return &search.Result{HotelIds: s.ids}, nil
}

func (r fakeReservation) CheckAvailability(_ context.Context, request *reservation.Request) (*reservation.Result, error) {
	result := &reservation.Result{}
	for _, id := range request.GetHotelId() {
		if id != r.full {
			result.HotelId = append(result.HotelId, id)
		}
	}
	return result, nil
}

func (r fakeReservation) MakeReservation(ctx context.Context, request *reservation.Request) (*reservation.Result, error) {
	return r.CheckAvailability(ctx, request)
}

func (fakeProfile) GetProfiles(_ context.Context, request *profile.Request) (*profile.Result, error) {
	result := &profile.Result{}
	for _, id := range request.GetHotelIds() {
		result.Hotels = append(result.Hotels, &profile.Hotel{
			Id: id, Name: "Hotel " + id, PhoneNumber: "1", Address: &profile.Address{Lat: 37.5, Lon: -122.5},
		})
	}
	return result, nil
}

// town is a frontend over a registry that can be emptied and taken down.
type town struct {
	t        *testing.T
	catalog  *consul.Catalog
	registry *httptest.Server
	site     *httptest.Server
}

func newTown(t *testing.T) *town {
	t.Helper()
	made := &town{t: t, catalog: consul.NewCatalog()}
	made.registry = httptest.NewServer(consul.NewAgent(made.catalog, "node", "127.0.0.1").Handler())
	t.Cleanup(made.registry.Close)
	t.Cleanup(made.registry.CloseClientConnections) // runs first: long polls would hold Close up
	proc := process(t, "frontend")
	client := registry.New(strings.TrimPrefix(made.registry.URL, "http://"))
	peers := &mesh{process: proc, registry: client, names: registry.NewBuilder(client, proc.Log)}
	connections := map[string]*grpc.ClientConn{}
	for _, name := range []string{srvSearch, srvProfile, srvRecommendation, srvUser, srvReservation} {
		connections[name] = peers.dial(name)
		t.Cleanup(func() { connections[name].Close() })
	}
	pages := &frontend{
		process: proc, search: search.NewSearchClient(connections[srvSearch]), profile: profile.NewProfileClient(connections[srvProfile]),
		recommendation: recommendation.NewRecommendationClient(connections[srvRecommendation]),
		user:           user.NewUserClient(connections[srvUser]), reservation: reservation.NewReservationClient(connections[srvReservation]),
	}
	made.site = httptest.NewServer(pages.handler())
	t.Cleanup(made.site.Close)
	return made
}

// open serves a peer and registers it.
func (w *town) open(name string, register func(*grpc.Server)) {
	w.t.Helper()
	server := rpc.NewServer(telemetry.NewMetrics(name), nil)
	register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	go server.Serve(listener) //nolint:errcheck // ends with the test
	w.t.Cleanup(server.Stop)
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	w.announce(name, port)
}

func (w *town) announce(name, port string) {
	number, err := strconv.Atoi(port)
	if err != nil {
		w.t.Fatal(err)
	}
	w.catalog.Register(consul.Instance{ID: name + port, Name: name, Address: "127.0.0.1", Port: number})
}

func (w *town) openAll() {
	users := &userServer{passwords: map[string]string{"Cornell_1": hashPassword("1111111111")}}
	picks := &recommendationServer{process: process(w.t, "recommendation"), hotels: seedPicks()}
	w.open(srvSearch, func(s *grpc.Server) { search.RegisterSearchServer(s, fakeSearch{ids: []string{"3", "4", "1"}}) })
	w.open(srvReservation, func(s *grpc.Server) { reservation.RegisterReservationServer(s, fakeReservation{full: "4"}) })
	w.open(srvProfile, func(s *grpc.Server) { profile.RegisterProfileServer(s, fakeProfile{}) })
	w.open(srvUser, func(s *grpc.Server) { user.RegisterUserServer(s, users) })
	w.open(srvRecommendation, func(s *grpc.Server) { recommendation.RegisterRecommendationServer(s, picks) })
}

func (w *town) get(path string) (int, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.site.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// eventually waits until path answers with code: the registry's news travel by themselves.
func (w *town) eventually(path string, code int) {
	w.t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got, body := w.get(path)
		if got == code {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s still gives %d: %s", path, got, body)
		}
	}
}

const (
	hotelsPath = "/hotels?inDate=2015-04-09&outDate=2015-04-11&lat=37.7867&lon=-122.4112"
	bookPath   = "/reservation?inDate=2015-04-09&outDate=2015-04-11&customerName=A&username=Cornell_1&number=1"
)

func TestPages(t *testing.T) {
	w := newTown(t)
	w.openAll()
	w.eventually(hotelsPath, 200)
	_, body := w.get(hotelsPath)
	var answer featureCollection
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Type != "FeatureCollection" || len(answer.Features) != 2 || answer.Features[0].ID != "3" || answer.Features[1].ID != "1" {
		t.Errorf("hotels: %s", body)
	}
	if at := answer.Features[0].Geometry.Coordinates; at != [2]float64{-122.5, 37.5} {
		t.Errorf("coordinates are %v, not longitude and latitude", at)
	}
	for _, c := range []struct {
		path, contains string
		code           int
	}{
		{"/", "<html", 200},
		{"/nowhere", "", 404},
		{"/hotels?lat=1&lon=1", "inDate", 400},
		{"/hotels?inDate=2015-04-09&outDate=2015-04-10", "lat", 400},
		{"/recommendations?require=price", "lat", 400},
		{"/recommendations?require=luck&lat=1&lon=1", "require", 400},
		{"/recommendations?require=price&lat=37.8&lon=-122.4", `"id":"2"`, 200},
		{"/user?username=Cornell_1", "password", 400},
		{"/user?username=Cornell_1&password=1111111111", "successful", 200},
		{"/user?username=Cornell_1&password=2", "failed", 200},
		{"/user?username=nobody&password=2", "failed", 200},
		{bookPath + "&hotelId=1", "password", 400},
		{bookPath + "&hotelId=1&password=1111111111", "Reservation successful", 200},
		{bookPath + "&hotelId=1&password=2", "failed", 200},
		{bookPath + "&hotelId=4&password=1111111111", "already reserved", 200},
		{"/reservation?inDate=9.4.2015&outDate=2015-04-11", "dates", 400},
	} {
		if code, body := w.get(c.path); code != c.code || !strings.Contains(body, c.contains) {
			t.Errorf("%s: %d %s", c.path, code, body)
		}
	}
}

func TestPeerThatTheRegistryDoesNotKnowFailsQuickly(t *testing.T) {
	w := newTown(t)
	begin := time.Now()
	if code, body := w.get(hotelsPath); code != 500 || time.Since(begin) > time.Second {
		t.Errorf("%d after %v: %s", code, time.Since(begin), body)
	}
}

func TestDeadAddressesCostNoRequest(t *testing.T) {
	w := newTown(t)
	w.announce(srvSearch, closedPort(t))
	w.announce(srvProfile, closedPort(t))
	w.openAll()
	w.announce(srvReservation, closedPort(t))
	w.eventually(hotelsPath, 200)
	for range 50 {
		if code, body := w.get(hotelsPath); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
}

func TestRegistryThatForgotItsEntriesFailsRequests(t *testing.T) {
	w := newTown(t)
	w.openAll()
	w.eventually(hotelsPath, 200)
	instances, _ := w.catalog.Instances(srvSearch)
	w.catalog.Deregister(instances[0].ID)
	w.eventually(hotelsPath, 500)
	if code, _ := w.get("/user?username=Cornell_1&password=1111111111"); code != 200 {
		t.Errorf("another peer fails too: %d", code)
	}
	w.catalog.Register(instances[0])
	w.eventually(hotelsPath, 200)
}

func TestCallsGoOnWhileTheRegistryIsAway(t *testing.T) {
	w := newTown(t)
	w.openAll()
	w.eventually(hotelsPath, 200)
	w.registry.Listener.Close()
	w.registry.CloseClientConnections()
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if code, body := w.get(hotelsPath); code != 200 {
			t.Fatalf("%d %s", code, body)
		}
	}
}

func TestSearchSwitchFailsOnlySearches(t *testing.T) {
	pages := &frontend{process: process(t, "frontend"), searchOff: true}
	site := httptest.NewServer(pages.handler())
	defer site.Close()
	w := &town{t: t, site: site}
	if code, _ := w.get(hotelsPath); code != 500 {
		t.Errorf("search: %d", code)
	}
	if code, _ := w.get("/"); code != 200 {
		t.Errorf("start page: %d", code)
	}
}

// closedPort is a port on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}
