package consul

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func agent(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(NewAgent(NewCatalog(), "node", "10.0.0.9").Handler())
	t.Cleanup(server.Close)
	return server
}

func request(t *testing.T, method, target, body string) (int, http.Header, []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	asked, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(asked)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var raw json.RawMessage
	if response.ContentLength != 0 {
		_ = json.NewDecoder(response.Body).Decode(&raw) // error texts are no JSON
	}
	return response.StatusCode, response.Header, raw
}

const registration = `{"ID":"one","Name":"srv-geo","Address":"10.0.0.1","Port":8083}`

func TestRegisteredServicesAreFound(t *testing.T) {
	server := agent(t)
	if code, _, _ := request(t, "PUT", server.URL+"/v1/agent/service/register", registration); code != 200 {
		t.Fatalf("register: %d", code)
	}
	_, header, body := request(t, "GET", server.URL+"/v1/health/service/srv-geo?passing", "")
	var entries []struct {
		Service struct {
			ID, Service, Address string
			Port                 int
		}
		Checks []struct{ Status string }
	}
	if err := json.Unmarshal(body, &entries); err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Service.Address != "10.0.0.1" || entries[0].Service.Port != 8083 || entries[0].Checks[0].Status != "passing" {
		t.Errorf("health: %s", body)
	}
	if header.Get("X-Consul-Index") == "" {
		t.Error("no index")
	}
	var services map[string][]string
	_, _, body = request(t, "GET", server.URL+"/v1/catalog/services", "")
	if err := json.Unmarshal(body, &services); err != nil || services["srv-geo"] == nil || services["consul"] == nil {
		t.Errorf("catalog: %s %v", body, err)
	}
}

func TestUnknownServiceIsAnEmptyList(t *testing.T) {
	if code, _, body := request(t, "GET", agent(t).URL+"/v1/health/service/srv-none?passing", ""); code != 200 || string(body) != "[]" {
		t.Errorf("%d %s", code, body)
	}
}

func TestDeregister(t *testing.T) {
	server := agent(t)
	request(t, "PUT", server.URL+"/v1/agent/service/register", registration)
	if code, _, _ := request(t, "PUT", server.URL+"/v1/agent/service/deregister/one", ""); code != 200 {
		t.Errorf("deregister: %d", code)
	}
	if code, _, _ := request(t, "PUT", server.URL+"/v1/agent/service/deregister/one", ""); code != 404 {
		t.Errorf("second time: %d", code)
	}
	if _, _, body := request(t, "GET", server.URL+"/v1/health/service/srv-geo", ""); string(body) != "[]" {
		t.Errorf("still there: %s", body)
	}
}

func TestBadRegistrationsAreRefused(t *testing.T) {
	server := agent(t)
	for _, body := range []string{``, `{}`, `{"ID":"x"}`, `[]`} {
		if code, _, _ := request(t, "PUT", server.URL+"/v1/agent/service/register", body); code != 400 {
			t.Errorf("%q: %d", body, code)
		}
	}
}

func TestWaitEndsAtAChangeOfThatName(t *testing.T) {
	catalog := NewCatalog()
	catalog.Register(Instance{ID: "one", Name: "srv-geo"})
	_, index := catalog.Instances("srv-geo")
	woke := make(chan []Instance, 1)
	go func() {
		instances, _ := catalog.Wait(context.Background(), "srv-geo", index)
		woke <- instances
	}()
	catalog.Register(Instance{ID: "other", Name: "srv-user"})
	select {
	case <-woke:
		t.Fatal("woken by a change of another name")
	case <-time.After(50 * time.Millisecond):
	}
	catalog.Deregister("one")
	select {
	case instances := <-woke:
		if len(instances) != 0 {
			t.Errorf("got %v", instances)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("not woken")
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	catalog := NewCatalog()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if instances, index := catalog.Wait(ctx, "srv-geo", 1); len(instances) != 0 || index != 1 {
		t.Errorf("got %v %d", instances, index)
	}
}

func TestIndexOfAnEarlierLifeDoesNotWait(t *testing.T) {
	if instances, _ := NewCatalog().Wait(t.Context(), "srv-geo", 77); len(instances) != 0 {
		t.Errorf("got %v", instances)
	}
}
