package tracesink

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unique"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const maxExport = 16 << 20

// Receiver takes spans by OTLP, over gRPC and HTTP.
type Receiver struct {
	collector.UnimplementedTraceServiceServer
	store   *Store
	forward *Forwarder
}

// NewReceiver puts what it takes into store, and passes it on where forward is not nil.
func NewReceiver(store *Store, forward *Forwarder) *Receiver {
	return &Receiver{store: store, forward: forward}
}

// Export implements the OTLP trace service.
func (r *Receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	for _, resource := range request.GetResourceSpans() {
		service := unique.Make("unknown_service")
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				service = unique.Make(attribute.GetValue().GetStringValue())
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			spans := make([]Span, 0, len(scope.GetSpans()))
			for _, span := range scope.GetSpans() {
				spans = append(spans, convert(service, span))
			}
			r.store.Add(spans)
		}
	}
	r.forward.Take(request)
	return &collector.ExportTraceServiceResponse{}, nil
}

// ServeHTTP implements OTLP over HTTP, in protobuf and in JSON.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, httpRequest *http.Request) {
	body, err := readBody(w, httpRequest)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	request := &collector.ExportTraceServiceRequest{}
	isJSON := strings.HasPrefix(httpRequest.Header.Get("Content-Type"), "application/json")
	if isJSON {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, request)
	} else {
		err = proto.Unmarshal(body, request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response, _ := r.Export(httpRequest.Context(), request)
	if isJSON {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
		return
	}
	encoded, _ := proto.Marshal(response)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(encoded)
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var reader io.Reader = http.MaxBytesReader(w, r.Body, maxExport)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(reader)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		reader = io.LimitReader(unzipped, maxExport+1)
	}
	body, err := io.ReadAll(reader)
	if err == nil && len(body) > maxExport {
		err = errors.New("body too large")
	}
	return body, err
}

func convert(service name, span *otlp.Span) Span {
	start := time.Unix(0, int64(span.GetStartTimeUnixNano()))
	kept := Span{
		Service: service, Operation: unique.Make(span.GetName()), Start: start,
		Duration: time.Unix(0, int64(span.GetEndTimeUnixNano())).Sub(start),
		Failed:   span.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR,
	}
	copy(kept.TraceID[:], span.GetTraceId())
	copy(kept.SpanID[:], span.GetSpanId())
	copy(kept.ParentID[:], span.GetParentSpanId())
	kept.Tags = tags(span.GetAttributes())
	kind := strings.ToLower(strings.TrimPrefix(span.GetKind().String(), "SPAN_KIND_"))
	kept.Tags = append(kept.Tags, text("span.kind", kind))
	if kept.Failed {
		kept.Tags = append(kept.Tags, Tag{unique.Make("error"), true}, text("otel.status_code", "ERROR"))
		if message := span.GetStatus().GetMessage(); message != "" {
			kept.Tags = append(kept.Tags, text("otel.status_description", message))
		}
	}
	for _, event := range span.GetEvents() {
		kept.Events = append(kept.Events, Event{
			At:   time.Unix(0, int64(event.GetTimeUnixNano())),
			Tags: append(tags(event.GetAttributes()), text("event", event.GetName())),
		})
	}
	return kept
}

func text(key, value string) Tag { return Tag{unique.Make(key), unique.Make(value).Value()} }

func tags(attributes []*common.KeyValue) []Tag {
	made := make([]Tag, 0, len(attributes)+4)
	for _, attribute := range attributes {
		key := attribute.GetKey()
		switch value := attribute.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			made = append(made, text(key, value.StringValue))
		case *common.AnyValue_BoolValue:
			made = append(made, Tag{unique.Make(key), value.BoolValue})
		case *common.AnyValue_IntValue:
			made = append(made, Tag{unique.Make(key), value.IntValue})
		case *common.AnyValue_DoubleValue:
			made = append(made, Tag{unique.Make(key), value.DoubleValue})
		default:
			made = append(made, text(key, attribute.GetValue().String()))
		}
	}
	return made
}
