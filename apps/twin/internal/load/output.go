package load

import (
	"bufio"
	"encoding/json"
	"io"
	"time"
)

// ReadyLine is the first line: the spec was understood.
type ReadyLine struct {
	Kind   string  `json:"kind"`
	T      float64 `json:"t"`
	Seed   uint64  `json:"seed"`
	Target string  `json:"target"`
}

// PhaseLine says that a phase begins.
type PhaseLine struct {
	Kind string  `json:"kind"`
	T    float64 `json:"t"`
	Name string  `json:"name"`
	Rate float64 `json:"rate"`
}

// WindowLine is one operation over one window; T is the window's start.
type WindowLine struct {
	Kind      string  `json:"kind"`
	T         float64 `json:"t"`
	Seconds   float64 `json:"seconds"`
	Phase     string  `json:"phase"`
	Operation string  `json:"operation"`
	*Totals
	InFlight int `json:"in_flight"`
}

// RequestLine is one request; T is when it was due.
type RequestLine struct {
	Kind      string  `json:"kind"`
	T         float64 `json:"t"`
	Phase     string  `json:"phase"`
	Operation string  `json:"operation"`
	Outcome   string  `json:"outcome"` // ok or failed
	Reason    string  `json:"reason"`
	Status    int     `json:"status"`
	DelayMs   float64 `json:"delay_ms"`
	LatencyMs float64 `json:"latency_ms"`
	Bytes     int     `json:"bytes"`
}

// ErrorLine says that a command was not understood or refused; the run goes on.
type ErrorLine struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// SummaryLine is the last line.
type SummaryLine struct {
	Kind        string             `json:"kind"`
	T           float64            `json:"t"`
	Seconds     float64            `json:"seconds"`
	Scheduled   int                `json:"scheduled"`
	Sent        int                `json:"sent"`
	Missed      int                `json:"missed"`
	MissedShare float64            `json:"missed_share"`
	Operations  map[string]*Totals `json:"operations"`
}

// output writes lines behind the back of those who report, so that a slow reader does not disturb the schedule.
type output struct {
	lines chan any
	done  chan struct{}
	err   error
}

func newOutput(to io.Writer) *output {
	out := &output{lines: make(chan any, 1<<16), done: make(chan struct{})}
	go func() {
		defer close(out.done)
		buffer := bufio.NewWriter(to)
		encoder := json.NewEncoder(buffer)
		for line := range out.lines {
			if out.err == nil {
				out.err = encoder.Encode(line)
			}
			if len(out.lines) == 0 && out.err == nil {
				out.err = buffer.Flush()
			}
		}
	}()
	return out
}

func (o *output) write(lines ...any) {
	for _, line := range lines {
		o.lines <- line
	}
}

func (o *output) close() error {
	close(o.lines)
	<-o.done
	return o.err
}

func unix(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
