package hotel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	_ "embed"

	"apps/internal/config"
	"apps/internal/hotel/pb/profile"
	"apps/internal/hotel/pb/recommendation"
	"apps/internal/hotel/pb/reservation"
	"apps/internal/hotel/pb/search"
	"apps/internal/hotel/pb/user"
	"apps/internal/service"
)

//go:embed index.html
var indexPage []byte

type frontend struct {
	process        *service.Process
	search         search.SearchClient
	profile        profile.ProfileClient
	recommendation recommendation.RecommendationClient
	user           user.UserClient
	reservation    reservation.ReservationClient
	// searchOff is the odd switch of this service: its searches then fail while everything else goes on.
	searchOff bool
}

// runFrontend starts with or without its peers and the registry.
func runFrontend(ctx context.Context, process *service.Process) error {
	peers := joinMesh(ctx, process)
	pages := &frontend{
		process:        process,
		search:         search.NewSearchClient(peers.dial(srvSearch)),
		profile:        profile.NewProfileClient(peers.dial(srvProfile)),
		recommendation: recommendation.NewRecommendationClient(peers.dial(srvRecommendation)),
		user:           user.NewUserClient(peers.dial(srvUser)),
		reservation:    reservation.NewReservationClient(peers.dial(srvReservation)),
		searchOff:      config.Text("SEARCH_BACKEND_VERSION", "") == "true",
	}
	port := process.Config.Port("FrontendPort")
	if port == 0 {
		return errors.New("server port must be set (FrontendPort)")
	}
	server := &http.Server{
		Addr: ":" + strconv.Itoa(port), Handler: pages.handler(), TLSConfig: process.ServerTLS,
		ReadHeaderTimeout: 10 * time.Second,
	}
	process.Log.Info("serving", "port", port)
	if process.ServerTLS != nil {
		return fmt.Errorf("serve: %w", server.ListenAndServeTLS("", ""))
	}
	return fmt.Errorf("serve: %w", server.ListenAndServe())
}

// refusal is an answer other than 200.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

// failure is a call to a peer that failed.
type failure struct {
	peer string
	err  error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

func badRequest(message string) error { return &refusal{http.StatusBadRequest, message} }

// page answers a request with a value to be sent as JSON.
type page func(*http.Request) (any, error)

func (f *frontend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/hotels", f.serve("/hotels", f.hotels))
	mux.Handle("/recommendations", f.serve("/recommendations", f.recommendations))
	mux.Handle("/user", f.serve("/user", f.login))
	mux.Handle("/reservation", f.serve("/reservation", f.book))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(indexPage)
		f.process.Metrics.Served("GET /", "200", 0)
	})
	return mux
}

func (f *frontend) serve(path string, answer page) http.Handler {
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		value, err := answer(r)
		code := f.write(w, r, value, err)
		f.process.Metrics.Served(r.Method+" "+path, strconv.Itoa(code), time.Since(begin))
	})
	return otelhttp.NewHandler(plain, path, otelhttp.WithSpanNameFormatter(
		func(_ string, r *http.Request) string { return "HTTP " + r.Method + " " + path }))
}

func (f *frontend) write(w http.ResponseWriter, r *http.Request, value any, err error) int {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(value); err != nil {
			f.process.Log.DebugContext(r.Context(), "client went away", "error", err.Error())
		}
		return http.StatusOK
	}
	var refused *refusal
	if !errors.As(err, &refused) {
		refused = &refusal{http.StatusInternalServerError, err.Error()}
	}
	if refused.status >= http.StatusInternalServerError && !errors.Is(r.Context().Err(), context.Canceled) {
		f.process.Log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "status", refused.status,
			"peer", peerOf(err), "error", refused.message)
	}
	http.Error(w, refused.message, refused.status)
	return refused.status
}

func peerOf(err error) string {
	var failed *failure
	if errors.As(err, &failed) {
		return failed.peer
	}
	return ""
}

func (f *frontend) hotels(r *http.Request) (any, error) {
	if f.searchOff {
		return nil, &refusal{http.StatusInternalServerError, "search is not available"}
	}
	query := r.URL.Query()
	in, out := query.Get("inDate"), query.Get("outDate")
	if in == "" || out == "" {
		return nil, badRequest("inDate and outDate are required")
	}
	if query.Get("lat") == "" || query.Get("lon") == "" {
		return nil, badRequest("lat and lon are required")
	}
	found, err := f.search.Nearby(r.Context(), &search.Request{
		Lat: degrees(query.Get("lat")), Lon: degrees(query.Get("lon")), InDate: in, OutDate: out,
	})
	if err != nil {
		return nil, &failure{srvSearch, err}
	}
	free, err := f.reservation.CheckAvailability(r.Context(), &reservation.Request{
		HotelId: found.GetHotelIds(), InDate: in, OutDate: out, RoomNumber: 1,
	})
	if err != nil {
		return nil, &failure{srvReservation, err}
	}
	return f.collection(r.Context(), free.GetHotelId(), query.Get("locale"))
}

func (f *frontend) recommendations(r *http.Request) (any, error) {
	query := r.URL.Query()
	if query.Get("lat") == "" || query.Get("lon") == "" {
		return nil, badRequest("lat and lon are required")
	}
	require := query.Get("require")
	if require != "dis" && require != "rate" && require != "price" {
		return nil, badRequest("require must be one of dis, rate and price")
	}
	picks, err := f.recommendation.GetRecommendations(r.Context(), &recommendation.Request{
		Require: require, Lat: degrees(query.Get("lat")), Lon: degrees(query.Get("lon")),
	})
	if err != nil {
		return nil, &failure{srvRecommendation, err}
	}
	return f.collection(r.Context(), picks.GetHotelIds(), query.Get("locale"))
}

// message is the answer of the pages that do something.
type message struct {
	Message string `json:"message"`
}

func (f *frontend) login(r *http.Request) (any, error) {
	query := r.URL.Query()
	username, password := query.Get("username"), query.Get("password")
	if username == "" || password == "" {
		return nil, badRequest("username and password are required")
	}
	checked, err := f.user.CheckUser(r.Context(), &user.Request{Username: username, Password: password})
	if err != nil {
		return nil, &failure{srvUser, err}
	}
	if !checked.GetCorrect() {
		return message{"Login failed: check user name and password."}, nil
	}
	return message{"Login successful."}, nil
}

// book makes the booking whether or not the password is right; only the message differs.
func (f *frontend) book(r *http.Request) (any, error) {
	query := r.URL.Query()
	in, out := query.Get("inDate"), query.Get("outDate")
	if in == "" || out == "" {
		return nil, badRequest("inDate and outDate are required")
	}
	if !isDate(in) || !isDate(out) {
		return nil, badRequest("inDate and outDate must be dates (YYYY-MM-DD)")
	}
	for _, name := range []string{"hotelId", "customerName", "username", "password"} {
		if query.Get(name) == "" {
			return nil, badRequest(name + " is required")
		}
	}
	rooms, _ := strconv.Atoi(query.Get("number"))
	checked, err := f.user.CheckUser(r.Context(), &user.Request{Username: query.Get("username"), Password: query.Get("password")})
	if err != nil {
		return nil, &failure{srvUser, err}
	}
	booked, err := f.reservation.MakeReservation(r.Context(), &reservation.Request{
		CustomerName: query.Get("customerName"), HotelId: []string{query.Get("hotelId")},
		InDate: in, OutDate: out, RoomNumber: int32(rooms), //nolint:gosec // small number from a form
	})
	switch {
	case err != nil:
		return nil, &failure{srvReservation, err}
	case len(booked.GetHotelId()) == 0:
		return message{"Sorry, this hotel is already reserved."}, nil
	case !checked.GetCorrect():
		return message{"Login failed: check user name and password."}, nil
	default:
		return message{"Reservation successful."}, nil
	}
}

func degrees(text string) float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return value
}

func isDate(text string) bool {
	_, err := time.Parse(dateLayout, text)
	return err == nil
}
