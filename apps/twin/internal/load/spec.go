// Package load plays the users of an application: an open loop of requests whose times and values depend on a seed
// alone, and an account of what came back. It knows no application; the spec describes the requests.
package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Spec is what to send, where, and how to judge the answers.
type Spec struct {
	Target      string            `json:"target"` // ip:port; names are not resolved
	Host        string            `json:"host"`   // Host header, the target when empty
	Seed        uint64            `json:"seed"`
	Arrival     string            `json:"arrival"` // exponential (default) or constant
	TimeoutS    float64           `json:"timeout_s"`
	LateMs      float64           `json:"late_ms"`
	MaxInFlight int               `json:"max_in_flight"`
	WindowS     float64           `json:"window_s"`
	Records     bool              `json:"records"`
	Headers     map[string]string `json:"headers"`
	Phases      []Phase           `json:"phases"`
	Operations  []Operation       `json:"operations"`
}

// Phase is a stretch of time with one rate.
type Phase struct {
	Name      string             `json:"name"`
	Rate      float64            `json:"rate"`       // requests per second of all operations together
	DurationS *float64           `json:"duration_s"` // nil: until told otherwise
	Weights   map[string]float64 `json:"weights"`    // replaces the mix; operations not named get 0
}

// Operation is one kind of request.
type Operation struct {
	Name    string            `json:"name"`
	Weight  float64           `json:"weight"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Vars    []Var             `json:"vars"`
	Query   map[string]string `json:"query"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Expect  Expect            `json:"expect"`
}

// Expect is what a good answer looks like.
type Expect struct {
	Status []int   `json:"status"` // default 200
	JSON   []Check `json:"json"`
}

const (
	arrivalExponential = "exponential"
	arrivalConstant    = "constant"
)

// ParseSpec reads and completes a spec. Unknown fields are refused: a misspelt one would silently change the load.
func ParseSpec(raw []byte) (*Spec, error) {
	spec := &Spec{Arrival: arrivalExponential, TimeoutS: 10, LateMs: 100, MaxInFlight: 2000, WindowS: 1}
	if err := strict(raw, spec); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	if err := spec.validate(); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	return spec, nil
}

func (s *Spec) validate() error {
	if err := checkTarget(s.Target); err != nil {
		return err
	}
	if s.Arrival != arrivalExponential && s.Arrival != arrivalConstant {
		return fmt.Errorf("arrival %q is neither exponential nor constant", s.Arrival)
	}
	if s.TimeoutS <= 0 || s.WindowS <= 0 || s.LateMs <= 0 || s.MaxInFlight <= 0 {
		return errors.New("timeout_s, window_s, late_ms and max_in_flight must be positive")
	}
	if len(s.Operations) == 0 {
		return errors.New("no operations")
	}
	names := map[string]bool{}
	for i := range s.Operations {
		operation := &s.Operations[i]
		if operation.Name == "" || names[operation.Name] {
			return fmt.Errorf("operation %d: name %q is empty or used twice", i, operation.Name)
		}
		names[operation.Name] = true
		if err := operation.validate(); err != nil {
			return fmt.Errorf("operation %s: %w", operation.Name, err)
		}
	}
	return s.checkPhases(s.Phases)
}

func (s *Spec) checkPhases(phases []Phase) error {
	if len(phases) == 0 {
		return errors.New("no phases")
	}
	for i, phase := range phases {
		if phase.Rate < 0 || phase.DurationS != nil && *phase.DurationS < 0 {
			return fmt.Errorf("phase %d: rate and duration must not be negative", i)
		}
		if phase.DurationS == nil && i < len(phases)-1 {
			return fmt.Errorf("phase %d has no end, so those after it never come", i)
		}
		for name := range phase.Weights {
			if !slices.ContainsFunc(s.Operations, func(o Operation) bool { return o.Name == name }) {
				return fmt.Errorf("phase %d: no operation %q", i, name)
			}
		}
		if phase.Rate > 0 && s.totalWeight(phase) <= 0 {
			return fmt.Errorf("phase %d: all weights are 0", i)
		}
	}
	return nil
}

func (s *Spec) weight(phase Phase, operation *Operation) float64 {
	if phase.Weights != nil {
		return phase.Weights[operation.Name]
	}
	return operation.Weight
}

func (s *Spec) totalWeight(phase Phase) float64 {
	total := 0.0
	for i := range s.Operations {
		total += s.weight(phase, &s.Operations[i])
	}
	return total
}

func (o *Operation) validate() error {
	if o.Method == "" {
		o.Method = "GET"
	}
	if len(o.Expect.Status) == 0 {
		o.Expect.Status = []int{200}
	}
	if !strings.HasPrefix(o.Path, "/") {
		return fmt.Errorf("path %q must start with /", o.Path)
	}
	if o.Weight < 0 {
		return errors.New("weight must not be negative")
	}
	if _, err := o.values(newRandom(0, 0)); err != nil {
		return err
	}
	for _, check := range o.Expect.JSON {
		if err := check.validate(); err != nil {
			return err
		}
	}
	return nil
}

func checkTarget(target string) error {
	if _, err := netip.ParseAddrPort(target); err != nil {
		return fmt.Errorf("target must be ip:port: %w", err)
	}
	return nil
}

func strict(raw []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func seconds(value float64) time.Duration { return time.Duration(value * float64(time.Second)) }
