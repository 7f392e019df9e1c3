package consul

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
	version     = "1.22.3"
	datacenter  = "dc1"
)

// Agent answers the HTTP API over a catalog.
type Agent struct {
	catalog *Catalog
	node    string
	address string
}

// NewAgent makes the agent of a node with a name and an address.
func NewAgent(catalog *Catalog, node, address string) *Agent {
	return &Agent{catalog: catalog, node: node, address: address}
}

// Handler is the API.
func (a *Agent) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/agent/service/register", a.register)
	mux.HandleFunc("PUT /v1/agent/service/deregister/{id}", a.deregister)
	mux.HandleFunc("GET /v1/agent/services", a.agentServices)
	mux.HandleFunc("GET /v1/agent/self", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"Config": map[string]any{"Datacenter": datacenter, "NodeName": a.node, "Server": true, "Version": version}})
	})
	mux.HandleFunc("GET /v1/agent/members", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, []map[string]any{{"Name": a.node, "Addr": a.address, "Port": 8301, "Status": 1}})
	})
	mux.HandleFunc("GET /v1/catalog/services", a.catalogServices)
	mux.HandleFunc("GET /v1/catalog/service/{name}", a.catalogService)
	mux.HandleFunc("GET /v1/catalog/nodes", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, []map[string]any{{"Node": a.node, "Address": a.address, "Datacenter": datacenter}})
	})
	mux.HandleFunc("GET /v1/health/service/{name}", a.health)
	mux.HandleFunc("GET /v1/status/leader", func(w http.ResponseWriter, _ *http.Request) { answer(w, a.address+":8300") })
	mux.HandleFunc("GET /v1/status/peers", func(w http.ResponseWriter, _ *http.Request) { answer(w, []string{a.address + ":8300"}) })
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("Consul Agent\n")) })
	return mux
}

func (a *Agent) register(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		ID, Name, Address string
		Port              int
		Tags              []string
		Meta              map[string]string
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&asked); err != nil {
		http.Error(w, "Request decode failed: "+err.Error(), http.StatusBadRequest)
		return
	}
	if asked.Name == "" {
		http.Error(w, "Missing service name", http.StatusBadRequest)
		return
	}
	if asked.ID == "" {
		asked.ID = asked.Name
	}
	a.catalog.Register(Instance{ID: asked.ID, Name: asked.Name, Address: asked.Address, Port: asked.Port, Tags: asked.Tags, Meta: asked.Meta})
}

func (a *Agent) deregister(w http.ResponseWriter, r *http.Request) {
	if id := r.PathValue("id"); !a.catalog.Deregister(id) {
		http.Error(w, "Unknown service ID \""+id+"\". Ensure that the service ID is passed, not the service name.", http.StatusNotFound)
	}
}

func (a *Agent) agentServices(w http.ResponseWriter, _ *http.Request) {
	instances, _ := a.catalog.Instances("")
	services := map[string]any{}
	for _, instance := range instances {
		services[instance.ID] = serviceView(instance)
	}
	answer(w, services)
}

func (a *Agent) catalogServices(w http.ResponseWriter, r *http.Request) {
	instances, index := a.wait(r, "")
	services := map[string][]string{"consul": {}}
	for _, instance := range instances {
		services[instance.Name] = append([]string{}, instance.Tags...)
	}
	setIndex(w, index)
	answer(w, services)
}

func (a *Agent) catalogService(w http.ResponseWriter, r *http.Request) {
	instances, index := a.wait(r, r.PathValue("name"))
	rows := []map[string]any{}
	for _, instance := range instances {
		rows = append(rows, map[string]any{
			"Node": a.node, "Address": a.address, "Datacenter": datacenter,
			"ServiceID": instance.ID, "ServiceName": instance.Name, "ServiceAddress": instance.Address,
			"ServicePort": instance.Port, "ServiceTags": append([]string{}, instance.Tags...),
			"CreateIndex": instance.CreateIndex, "ModifyIndex": instance.ModifyIndex,
		})
	}
	setIndex(w, index)
	answer(w, rows)
}

// health lists the instances that pass their checks; without checks that is all of them, dead ones included.
func (a *Agent) health(w http.ResponseWriter, r *http.Request) {
	instances, index := a.wait(r, r.PathValue("name"))
	rows := []map[string]any{}
	for _, instance := range instances {
		rows = append(rows, map[string]any{
			"Node":    map[string]any{"Node": a.node, "Address": a.address, "Datacenter": datacenter},
			"Service": serviceView(instance),
			"Checks": []map[string]any{{
				"Node": a.node, "CheckID": "serfHealth", "Name": "Serf Health Status", "Status": "passing",
				"Output": "Agent alive and reachable",
			}},
		})
	}
	setIndex(w, index)
	answer(w, rows)
}

// wait reads, as a blocking query when the request names an index.
func (a *Agent) wait(r *http.Request, name string) ([]Instance, uint64) {
	index, err := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64)
	if err != nil || index == 0 {
		return a.catalog.Instances(name)
	}
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || wait <= 0 {
		wait = defaultWait
	}
	ctx, cancel := context.WithTimeout(r.Context(), min(wait, maxWait))
	defer cancel()
	return a.catalog.Wait(ctx, name, index)
}

func serviceView(instance Instance) map[string]any {
	return map[string]any{
		"ID": instance.ID, "Service": instance.Name, "Address": instance.Address, "Port": instance.Port,
		"Tags": append([]string{}, instance.Tags...), "Meta": instance.Meta, "Datacenter": datacenter,
		"CreateIndex": instance.CreateIndex, "ModifyIndex": instance.ModifyIndex,
	}
}

func setIndex(w http.ResponseWriter, index uint64) {
	w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
	w.Header().Set("X-Consul-Knownleader", "true")
	w.Header().Set("X-Consul-Lastcontact", "0")
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client went away: nothing to tell anyone
}
