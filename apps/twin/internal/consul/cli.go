package consul

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const agentURL = "http://127.0.0.1:8500"

const usage = `Usage: consul <command> [args]

Available commands are:
    agent          Runs the agent
    catalog        Interact with the catalog (services, nodes)
    members        Lists the members
    services       Interact with services (register, deregister)
    version        Prints the version
`

// ErrUsage means that the command line was not understood; the usage has been printed.
var ErrUsage = errors.New("usage")

// CLI runs one operator's command against the agent of this host.
func CLI(ctx context.Context, args []string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	switch {
	case slices.Equal(args, []string{"version"}) || slices.Equal(args, []string{"--version"}):
		_, err := fmt.Fprintf(out, "Consul v%s\n", version)
		return err
	case slices.Equal(args, []string{"catalog", "services"}):
		return listServices(ctx, out)
	case slices.Equal(args, []string{"catalog", "nodes"}), slices.Equal(args, []string{"members"}):
		return listMembers(ctx, out)
	case len(args) > 1 && args[0] == "services" && args[1] == "deregister":
		return deregister(ctx, args[2:], out)
	case len(args) > 1 && args[0] == "services" && args[1] == "register":
		return register(ctx, args[2:], out)
	default:
		_, _ = io.WriteString(out, usage)
		return ErrUsage
	}
}

func listServices(ctx context.Context, out io.Writer) error {
	var services map[string][]string
	if err := call(ctx, http.MethodGet, "/v1/catalog/services", nil, &services); err != nil {
		return err
	}
	names := make([]string, 0, len(services))
	for name := range services {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if _, err := fmt.Fprintln(out, name); err != nil {
			return err
		}
	}
	return nil
}

func listMembers(ctx context.Context, out io.Writer) error {
	var members []struct {
		Name, Addr string
		Port       int
	}
	if err := call(ctx, http.MethodGet, "/v1/agent/members", nil, &members); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%-20s %-22s %-8s %-8s %s\n", "Node", "Address", "Status", "Type", "Build")
	for _, member := range members {
		_, err = fmt.Fprintf(out, "%-20s %-22s %-8s %-8s %s\n", member.Name, fmt.Sprintf("%s:%d", member.Addr, member.Port), "alive", "server", version)
	}
	return err
}

func deregister(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("services deregister", flag.ContinueOnError)
	flags.SetOutput(out)
	id := flags.String("id", "", "ID of the service")
	if err := flags.Parse(args); err != nil || *id == "" {
		return ErrUsage
	}
	if err := call(ctx, http.MethodPut, "/v1/agent/service/deregister/"+url.PathEscape(*id), nil, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Deregistered service: %s\n", *id)
	return err
}

func register(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("services register", flag.ContinueOnError)
	flags.SetOutput(out)
	id, name := flags.String("id", "", "ID of the service"), flags.String("name", "", "name of the service")
	address, port := flags.String("address", "", "address"), flags.Int("port", 0, "port")
	if err := flags.Parse(args); err != nil || *name == "" {
		return ErrUsage
	}
	body := map[string]any{"ID": *id, "Name": *name, "Address": *address, "Port": *port}
	if err := call(ctx, http.MethodPut, "/v1/agent/service/register", body, nil); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "Registered service: %s\n", *name)
	return err
}

func call(ctx context.Context, method, path string, body, into any) error {
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(json.NewEncoder(writer).Encode(body)) }()
	request, err := http.NewRequestWithContext(ctx, method, agentURL+path, reader)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("error connecting to the agent: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("unexpected response code: %d (%s)", response.StatusCode, text)
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}
