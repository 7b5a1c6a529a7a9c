//go:build unix

package otlp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/telemetry"
)

// asChild makes the test binary a process that makes calls. The value is its config.
const asChild = "ONCEGUARD_OTLP_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		if err := runChild([]byte(text)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := flag.Set("test.parallel", "20"); err != nil { // most of them wait most of the time
		panic(err)
	}
	realtest.Main(m)
}

const (
	lease         = 1500 * time.Millisecond // unless a test says more; a store call may take a third of it
	exportEvery   = 20 * time.Millisecond
	resultAtMost  = 1000
	applicationID = "application" // the scope of the spans that are not the guard's
)

// config is what a child needs to know.
type config struct {
	Name, Sink, Redis, Prefix string
	Lease                     time.Duration
}

// order is a line that the parent writes: a call to make, or with only a Call and GoOn the word
// that its action, or its hook, may end.
type order struct {
	Call, Operation, Key, Card string
	Then, Hook                 string // what the action does, and what the recovery hook finds
	GoOn, Quit                 bool
}

// tale is a line that a child writes.
type tale struct {
	Call, What          string // starts, began, asked, lost or done
	Trace, Span         string // of the guard's call
	Metrics             string // where they are scraped, in the first line
	How, KeyHash, Error string
	Fence               int64
	Same                bool // the result has the card
}

// receipt is the result of an action.
type receipt struct {
	Card, Padding string
	Broken        broken
}

// broken is a text that cannot be encoded if there is one. The error quotes it.
type broken string

func (b broken) MarshalText() ([]byte, error) {
	if b != "" {
		return nil, fmt.Errorf("cannot encode %s", string(b))
	}
	return nil, nil
}

type child struct {
	config
	tracer     trace.Tracer
	operations map[string]*guard.Operation[receipt]
	mu         sync.Mutex
	goOn       map[string]chan struct{}
}

func runChild(text []byte) error {
	c := &child{goOn: map[string]chan struct{}{}, operations: map[string]*guard.Operation[receipt]{}}
	if err := json.Unmarshal(text, &c.config); err != nil {
		return err
	}
	ctx := context.Background()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.Sink))
	if err != nil {
		return err
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(exportEvery)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", c.Name))),
	)
	registry := prometheus.NewRegistry()
	if err := c.guards(provider, registry); err != nil {
		return err
	}
	address, err := serveMetrics(registry)
	if err != nil {
		return err
	}
	tell(tale{What: "ready", Metrics: address})
	c.obey(ctx)
	return provider.Shutdown(ctx)
}

// guards makes the operations.
func (c *child) guards(provider trace.TracerProvider, registry *prometheus.Registry) error {
	c.tracer = provider.Tracer(applicationID)
	tel, err := telemetry.New(telemetry.Options{
		Registerer: registry, TracerProvider: provider,
		Logger: slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: c.Redis, ContextTimeoutEnabled: true, DialerRetries: 1})
	store, err := redisx.New(rdb, redisx.Options{Prefix: c.Prefix})
	if err != nil {
		return err
	}
	g, err := guard.New(store, guard.WithObserver(tel), guard.WithOwnerLabel(c.Name), guard.WithLease(c.Lease),
		guard.WithStoreTimeout(lease/3),
		guard.WithMaxResultBytes(resultAtMost))
	if err != nil {
		return err
	}
	off := func() bool { return false }
	for name, options := range map[string][]guard.OperationOption{
		opCharge: {guard.WithWaitBound(time.Minute)},
		opPayment: {
			guard.ForPayments(), guard.WithRecovery(c.ask), guard.WithSettleTime(0),
			guard.WithWaitBound(time.Minute), guard.WithRecoveryTimeout(time.Minute),
		},
		opOnce:   {guard.ForPayments(), guard.AtMostOnce()},
		opRefuse: {guard.OnInFlight(guard.Refuse)},
		opClosed: {guard.OnStorageError(guard.FailClosed)},
		opOff:    {guard.WithEnabled(off)},
	} {
		if c.operations[name], err = guard.NewOperation[receipt](g, name, options...); err != nil {
			return err
		}
	}
	return nil
}

func serveMetrics(registry *prometheus.Registry) (address string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // until the process ends
	if err != nil {
		return "", err
	}
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorHandling: promhttp.HTTPErrorOnError,
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	return "http://" + listener.Addr().String(), nil
}

func tell(t tale) {
	line, err := json.Marshal(t)
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(os.Stdout, string(line)+"\n")
}

// obey makes the calls that it is told to, each beside the others, until it is told to quit.
func (c *child) obey(ctx context.Context) {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var o order
		switch err := json.Unmarshal(lines.Bytes(), &o); {
		case err != nil:
			panic(err)
		case o.Quit:
			return
		case o.GoOn:
			close(c.word(o.Call))
		default:
			go c.call(ctx, o)
		}
	}
	os.Exit(1) // the parent is gone
}

// word is closed when the parent has given it.
func (c *child) word(call string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.goOn[call] == nil {
		c.goOn[call] = make(chan struct{})
	}
	return c.goOn[call]
}

// end ends a span of the application. An End that is deferred itself records the value of a panic.
func end(span trace.Span) { span.End() }

type orderKey struct{}

// call is what a server does for a request.
func (c *child) call(ctx context.Context, o order) {
	done := tale{Call: o.Call, What: "done", KeyHash: guard.KeyHash(guard.Key{Operation: o.Operation, Name: o.Key})}
	if !strings.HasPrefix(o.Call, "job") { // which nobody has asked for
		var span trace.Span
		ctx, span = c.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
		defer end(span)
		tell(tale{Call: o.Call, What: "starts", Trace: span.SpanContext().TraceID().String()})
	}
	defer func() {
		if p := recover(); p != nil {
			done.Error = "panic"
		}
		tell(done)
	}()
	ctx = context.WithValue(ctx, orderKey{}, o)
	result, err := c.operations[o.Operation].DoResult(ctx, o.Key, c.act, guard.WithInput(o.Card))
	done.How, done.Fence, done.Same = string(result.How), result.Fence, result.Value.Card == o.Card
	if err != nil {
		done.Error = err.Error()
	}
}

// act is the action. Its error quotes the card.
func (c *child) act(ctx context.Context) (receipt, error) {
	o, _ := ctx.Value(orderKey{}).(order)
	around := trace.SpanContextFromContext(ctx)
	tell(tale{Call: o.Call, What: "began", Trace: around.TraceID().String(), Span: around.SpanID().String()})
	_, span := c.tracer.Start(ctx, "charge", trace.WithSpanKind(trace.SpanKindClient))
	defer end(span)
	switch o.Then {
	case "waits":
		<-c.word(o.Call)
	case "waits until lost":
		lease, _ := guard.LeaseFromContext(ctx)
		<-lease.Lost()
		tell(tale{Call: o.Call, What: "lost"})
		<-c.word(o.Call)
	case "fails":
		return receipt{}, fmt.Errorf("charge %s: declined", o.Card)
	case "panics":
		panic(o.Card)
	case "is large":
		return receipt{Card: o.Card, Padding: strings.Repeat(o.Card, resultAtMost)}, nil
	case "is broken":
		return receipt{Card: o.Card, Broken: broken(o.Card)}, nil
	}
	return receipt{Card: o.Card}, nil
}

// ask is the recovery hook. Its error quotes the card.
func (c *child) ask(ctx context.Context, _ guard.Evidence) (receipt, guard.Finding, error) {
	o, _ := ctx.Value(orderKey{}).(order)
	around := parentOf(ctx) // of guard.recover
	tell(tale{Call: o.Call, What: "asked", Trace: around.TraceID().String(), Span: around.SpanID().String()})
	_, span := c.tracer.Start(ctx, "ask", trace.WithSpanKind(trace.SpanKindClient))
	defer end(span)
	switch o.Hook {
	case "waits":
		<-c.word(o.Call)
		return receipt{}, guard.CannotTell, errors.New("unreachable: it is killed")
	case "fails":
		return receipt{}, guard.CannotTell, fmt.Errorf("look up %s: no answer", o.Card)
	case "finds nothing":
		return receipt{}, guard.NotFound, nil
	default:
		return receipt{Card: o.Card}, guard.Found, nil
	}
}

// parentOf is the parent of the span in the context, which is recorded.
func parentOf(ctx context.Context) trace.SpanContext {
	recorded, ok := trace.SpanFromContext(ctx).(sdktrace.ReadOnlySpan)
	if !ok {
		return trace.SpanContext{}
	}
	return recorded.Parent()
}
