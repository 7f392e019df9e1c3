package tracesink

import (
	"encoding/hex"
	"strconv"
)

// The shapes below are those of Jaeger's JSON.
type traceView struct {
	TraceID   string                 `json:"traceID"`
	Spans     []spanView             `json:"spans"`
	Processes map[string]processView `json:"processes"`
	Warnings  []string               `json:"warnings"`
}

type processView struct {
	ServiceName string    `json:"serviceName"`
	Tags        []tagView `json:"tags"`
}

type spanView struct {
	TraceID       string          `json:"traceID"`
	SpanID        string          `json:"spanID"`
	OperationName string          `json:"operationName"`
	References    []referenceView `json:"references"`
	StartTime     int64           `json:"startTime"` // microseconds since 1970
	Duration      int64           `json:"duration"`  // microseconds
	Tags          []tagView       `json:"tags"`
	Logs          []logView       `json:"logs"`
	ProcessID     string          `json:"processID"`
	Warnings      []string        `json:"warnings"`
}

type referenceView struct {
	RefType string `json:"refType"`
	TraceID string `json:"traceID"`
	SpanID  string `json:"spanID"`
}

type tagView struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"`
}

type logView struct {
	Timestamp int64     `json:"timestamp"`
	Fields    []tagView `json:"fields"`
}

func view(spans []Span) traceView {
	made := traceView{Spans: []spanView{}, Processes: map[string]processView{}}
	processes := map[name]string{}
	for _, span := range spans {
		process, known := processes[span.Service]
		if !known {
			process = "p" + strconv.Itoa(len(processes)+1)
			processes[span.Service] = process
			made.Processes[process] = processView{ServiceName: span.Service.Value(), Tags: []tagView{}}
		}
		made.TraceID = hex.EncodeToString(span.TraceID[:])
		made.Spans = append(made.Spans, span.view(process))
	}
	return made
}

func (s Span) view(process string) spanView {
	made := spanView{
		TraceID: hex.EncodeToString(s.TraceID[:]), SpanID: hex.EncodeToString(s.SpanID[:]), OperationName: s.Operation.Value(),
		References: []referenceView{}, StartTime: s.Start.UnixMicro(), Duration: s.Duration.Microseconds(),
		Tags: viewTags(s.Tags), Logs: []logView{}, ProcessID: process,
	}
	if s.ParentID != [8]byte{} {
		made.References = append(made.References, referenceView{"CHILD_OF", made.TraceID, hex.EncodeToString(s.ParentID[:])})
	}
	for _, event := range s.Events {
		made.Logs = append(made.Logs, logView{Timestamp: event.At.UnixMicro(), Fields: viewTags(event.Tags)})
	}
	return made
}

func viewTags(tags []Tag) []tagView {
	made := []tagView{}
	for _, tag := range tags {
		kind := "string"
		switch tag.Value.(type) {
		case bool:
			kind = "bool"
		case int64:
			kind = "int64"
		case float64:
			kind = "float64"
		}
		made = append(made, tagView{tag.Key.Value(), kind, tag.Value})
	}
	return made
}
