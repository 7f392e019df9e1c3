module observability/jaeger

go 1.26.8

require github.com/jaegertracing/jaeger v1.76.0
