// Command temporal-next is a Temporal dev server of a version that has standalone activities, which
// that of tools/temporal lacks. It keeps everything in memory, has the namespace "default", and
// takes the arguments with which internal/realtest starts the Temporal CLI:
//
//	temporal-next server start-dev --ip 127.0.0.1 --port 7233
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "temporal-next:", err)
		os.Exit(1)
	}
}

// run serves until it is interrupted.
func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	server, err := newServer(o)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	if err := server.Start(); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	<-stop
	return server.Stop()
}

// options are what the command line says.
type options struct {
	ip       string
	port     int
	logLevel string
	dynamic  dynamicconfig.StaticClient
}

func parse(args []string) (options, error) {
	if len(args) < 2 || !slices.Equal(args[:2], []string{"server", "start-dev"}) {
		return options{}, errors.New("the command is: server start-dev [flags]")
	}
	o := options{dynamic: dynamicconfig.StaticClient{}}
	flags := flag.NewFlagSet("temporal-next server start-dev", flag.ContinueOnError)
	flags.StringVar(&o.ip, "ip", "127.0.0.1", "address of the frontend")
	flags.IntVar(&o.port, "port", 7233, "port of the frontend")
	flags.StringVar(&o.logLevel, "log-level", "never", "debug, info, warn, error or never")
	flags.Bool("headless", true, "there is no web interface in any case")
	flags.Func("dynamic-config-value", "a name, `=` and a value in JSON; repeatable", o.setDynamic)
	if err := flags.Parse(args[2:]); err != nil {
		return options{}, err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return options{}, fmt.Errorf("arguments %q: the server takes flags only", rest)
	}
	return o, nil
}

func (o *options) setDynamic(text string) error {
	name, encoded, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("there is no = in it")
	}
	var value any
	if err := json.Unmarshal([]byte(encoded), &value); err != nil {
		return fmt.Errorf("the value is no JSON: %w", err)
	}
	o.dynamic[dynamicconfig.MakeKey(name)] = value
	return nil
}

func (o *options) logger() log.Logger {
	if o.logLevel == "never" {
		return log.NewNoopLogger()
	}
	return log.NewZapLogger(log.BuildZapLogger(log.Config{Level: o.logLevel}))
}

func newServer(o options) (temporal.Server, error) {
	conf, err := newConfig(o)
	if err != nil {
		return nil, err
	}
	store := conf.Persistence.DataStores[storeName].SQL
	namespace, err := sqlite.NewNamespaceConfig(clusterName, "default", false, nil)
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	if err := sqlite.CreateNamespaces(store, namespace); err != nil {
		return nil, fmt.Errorf("create the namespace: %w", err)
	}
	logger := o.logger()
	authorizer, err := authorization.GetAuthorizerFromConfig(&conf.Global.Authorization)
	if err != nil {
		return nil, fmt.Errorf("authorizer: %w", err)
	}
	claims, err := authorization.GetClaimMapperFromConfig(&conf.Global.Authorization, logger)
	if err != nil {
		return nil, fmt.Errorf("claim mapper: %w", err)
	}
	return temporal.NewServer(
		temporal.WithConfig(conf),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts(conf)),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(authorizer),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithDynamicConfigClient(o.dynamic),
	)
}

// hosts says where each service is, so that no membership protocol has to find out.
func hosts(conf *config.Config) map[primitives.ServiceName]static.Hosts {
	at := map[primitives.ServiceName]static.Hosts{}
	for name, service := range conf.Services {
		at[primitives.ServiceName(name)] = static.SingleLocalHost(hostPort(loopback, service.RPC.GRPCPort))
	}
	return at
}
