// Package tracesink plays Jaeger's all-in-one: it takes spans by OTLP, keeps the latest traces in memory and answers
// Jaeger's query API. It draws no pages.
package tracesink

import (
	"slices"
	"sync"
	"time"

	"unique"
)

// Names repeat in every span: they are kept once.
type name = unique.Handle[string]

// Span is one kept span.
type Span struct {
	TraceID   [16]byte
	SpanID    [8]byte
	ParentID  [8]byte // zero: root
	Service   name
	Operation name
	Start     time.Time
	Duration  time.Duration
	Tags      []Tag
	Events    []Event
	Failed    bool
}

// Tag is one attribute.
type Tag struct {
	Key   name
	Value any // string, bool, int64 or float64
}

// Event is something that happened within a span.
type Event struct {
	At   time.Time
	Tags []Tag
}

// maxSpans bounds one trace, so that a runaway one cannot fill the memory.
const maxSpans = 500

type trace struct {
	id    [16]byte
	spans []Span
}

// Store is a ring of traces: a new one pushes out the oldest.
type Store struct {
	mu       sync.RWMutex
	capacity int
	order    [][16]byte
	traces   map[[16]byte]*trace
	seen     map[name]map[name]bool // service -> operations, kept after their traces are gone
	received int64
}

// NewStore keeps up to capacity traces.
func NewStore(capacity int) *Store {
	return &Store{capacity: max(capacity, 1), traces: map[[16]byte]*trace{}, seen: map[name]map[name]bool{}}
}

// Add keeps spans.
func (s *Store) Add(spans []Span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received += int64(len(spans))
	for _, span := range spans {
		known := s.traces[span.TraceID]
		if known == nil {
			known = s.open(span.TraceID)
		}
		if len(known.spans) < maxSpans {
			known.spans = append(known.spans, span)
		}
		if s.seen[span.Service] == nil {
			s.seen[span.Service] = map[name]bool{}
		}
		s.seen[span.Service][span.Operation] = true
	}
}

func (s *Store) open(id [16]byte) *trace {
	if len(s.order) >= s.capacity {
		delete(s.traces, s.order[0])
		s.order = slices.Delete(s.order, 0, 1)
	}
	made := &trace{id: id}
	s.traces[id] = made
	s.order = append(s.order, id)
	return made
}

// Received counts all spans ever taken.
func (s *Store) Received() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.received
}

// Services lists those that ever sent a span.
func (s *Store) Services() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := []string{}
	for service := range s.seen {
		found = append(found, service.Value())
	}
	slices.Sort(found)
	return found
}

// Operations lists those of one service.
func (s *Store) Operations(service string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := []string{}
	for operation := range s.seen[unique.Make(service)] {
		found = append(found, operation.Value())
	}
	slices.Sort(found)
	return found
}

// Trace gives the spans of one trace, nil when it is not kept.
func (s *Store) Trace(id [16]byte) []Span {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if known := s.traces[id]; known != nil {
		return slices.Clone(known.spans)
	}
	return nil
}

// Find gives whole traces of which a span matches, newest first.
func (s *Store) Find(matches func(Span) bool, limit int) [][]Span {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := [][]Span{}
	for _, id := range slices.Backward(s.order) {
		if len(found) == limit {
			break
		}
		if spans := s.traces[id].spans; slices.ContainsFunc(spans, matches) {
			found = append(found, slices.Clone(spans))
		}
	}
	return found
}

// Dependency counts calls of one service to another.
type Dependency struct {
	Parent    string `json:"parent"`
	Child     string `json:"child"`
	CallCount int    `json:"callCount"`
}

// Dependencies gives who called whom among the spans that started between from and to.
func (s *Store) Dependencies(from, to time.Time) []Dependency {
	s.mu.RLock()
	defer s.mu.RUnlock()
	counts := map[[2]string]int{}
	for _, kept := range s.traces {
		services := map[[8]byte]name{}
		for _, span := range kept.spans {
			services[span.SpanID] = span.Service
		}
		for _, span := range kept.spans {
			parent, known := services[span.ParentID]
			if known && parent != span.Service && !span.Start.Before(from) && !span.Start.After(to) {
				counts[[2]string{parent.Value(), span.Service.Value()}]++
			}
		}
	}
	found := []Dependency{}
	for pair, count := range counts {
		found = append(found, Dependency{Parent: pair[0], Child: pair[1], CallCount: count})
	}
	slices.SortFunc(found, func(a, b Dependency) int {
		return slices.Compare([]string{a.Parent, a.Child}, []string{b.Parent, b.Child})
	})
	return found
}
