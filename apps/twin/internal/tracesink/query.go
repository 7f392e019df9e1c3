package tracesink

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unique"
)

const defaultLimit = 20

// Query answers Jaeger's HTTP query API.
func Query(store *Store) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/services", func(w http.ResponseWriter, _ *http.Request) {
		services := store.Services()
		answer(w, http.StatusOK, services, len(services), "")
	})
	mux.HandleFunc("GET /api/services/{service}/operations", func(w http.ResponseWriter, r *http.Request) {
		operations := store.Operations(r.PathValue("service"))
		answer(w, http.StatusOK, operations, len(operations), "")
	})
	mux.HandleFunc("GET /api/operations", func(w http.ResponseWriter, r *http.Request) {
		var rows []map[string]string
		for _, operation := range store.Operations(r.URL.Query().Get("service")) {
			rows = append(rows, map[string]string{"name": operation, "spanKind": ""})
		}
		answer(w, http.StatusOK, rows, len(rows), "")
	})
	mux.HandleFunc("GET /api/traces/{id}", func(w http.ResponseWriter, r *http.Request) { one(w, r, store) })
	mux.HandleFunc("GET /api/traces", func(w http.ResponseWriter, r *http.Request) { find(w, r, store) })
	mux.HandleFunc("GET /api/dependencies", func(w http.ResponseWriter, r *http.Request) { dependencies(w, r, store) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("Jaeger query API: /api/services, /api/traces?service=NAME, /api/dependencies?endTs=MS&lookback=MS\n"))
	})
	return mux
}

func one(w http.ResponseWriter, r *http.Request, store *Store) {
	raw, err := hex.DecodeString(fmt.Sprintf("%032s", r.PathValue("id")))
	if err != nil || len(raw) != 16 {
		answer(w, http.StatusBadRequest, nil, 0, "malformed trace ID")
		return
	}
	spans := store.Trace([16]byte(raw))
	if spans == nil {
		answer(w, http.StatusNotFound, nil, 0, "trace not found")
		return
	}
	answer(w, http.StatusOK, []traceView{view(spans)}, 0, "")
}

func find(w http.ResponseWriter, r *http.Request, store *Store) {
	matches, err := filter(r.URL.Query())
	if err != nil {
		answer(w, http.StatusBadRequest, nil, 0, err.Error())
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit <= 0 {
		limit = defaultLimit
	}
	views := []traceView{}
	for _, spans := range store.Find(matches, limit) {
		views = append(views, view(spans))
	}
	answer(w, http.StatusOK, views, 0, "")
}

func dependencies(w http.ResponseWriter, r *http.Request, store *Store) {
	end, err := strconv.ParseInt(r.URL.Query().Get("endTs"), 10, 64)
	if err != nil {
		answer(w, http.StatusBadRequest, nil, 0, "unable to parse param 'endTs': milliseconds since 1970 are needed")
		return
	}
	lookback, err := strconv.ParseInt(r.URL.Query().Get("lookback"), 10, 64)
	if err != nil {
		lookback = (24 * time.Hour).Milliseconds()
	}
	found := store.Dependencies(time.UnixMilli(end-lookback), time.UnixMilli(end))
	answer(w, http.StatusOK, found, len(found), "")
}

// filter makes the condition on a span out of the parameters of Jaeger's search form.
func filter(query url.Values) (func(Span) bool, error) {
	service, operation := query.Get("service"), query.Get("operation")
	if service == "" {
		return nil, fmt.Errorf("parameter 'service' is required")
	}
	from, to, err := interval(query)
	if err != nil {
		return nil, err
	}
	shortest, longest := time.Duration(0), time.Duration(1<<62)
	for name, into := range map[string]*time.Duration{"minDuration": &shortest, "maxDuration": &longest} {
		if text := query.Get(name); text != "" {
			if *into, err = time.ParseDuration(text); err != nil {
				return nil, fmt.Errorf("unable to parse param '%s': %w", name, err)
			}
		}
	}
	wanted := map[string]string{}
	if text := query.Get("tags"); text != "" {
		if err := json.Unmarshal([]byte(text), &wanted); err != nil {
			return nil, fmt.Errorf("malformed 'tags' parameter, expecting a JSON object of strings: %w", err)
		}
	}
	for _, pair := range query["tag"] {
		key, value, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, fmt.Errorf("malformed 'tag' parameter, expecting key:value")
		}
		wanted[key] = value
	}
	return func(span Span) bool {
		return span.Service.Value() == service &&
			(operation == "" || operation == "all" || span.Operation.Value() == operation) &&
			!span.Start.Before(from) && !span.Start.After(to) &&
			span.Duration >= shortest && span.Duration <= longest && span.has(wanted)
	}, nil
}

func interval(query url.Values) (from, to time.Time, err error) {
	to = time.Now().Add(time.Minute)
	if text := query.Get("end"); text != "" {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return from, to, fmt.Errorf("unable to parse param 'end': %w", err)
		}
		to = time.UnixMicro(us)
	}
	if text := query.Get("start"); text != "" {
		us, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return from, to, fmt.Errorf("unable to parse param 'start': %w", err)
		}
		return time.UnixMicro(us), to, nil
	}
	if text := query.Get("lookback"); text != "" && text != "custom" {
		back, err := time.ParseDuration(text)
		if err != nil {
			return from, to, fmt.Errorf("unable to parse param 'lookback': %w", err)
		}
		from = to.Add(-back)
	}
	return from, to, nil
}

func (s Span) has(wanted map[string]string) bool {
	for key, value := range wanted {
		found := false
		for _, tag := range s.Tags {
			found = found || tag.Key == unique.Make(key) && fmt.Sprint(tag.Value) == value
		}
		if !found {
			return false
		}
	}
	return true
}

func answer(w http.ResponseWriter, status int, data any, total int, problem string) {
	type failure struct {
		Code int    `json:"code"`
		Msg  string `json:"msg"`
	}
	body := struct {
		Data   any       `json:"data"`
		Total  int       `json:"total"`
		Limit  int       `json:"limit"`
		Offset int       `json:"offset"`
		Errors []failure `json:"errors"`
	}{Data: data, Total: total}
	if problem != "" {
		body.Errors = []failure{{status, problem}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client went away: nothing to tell anyone
}
