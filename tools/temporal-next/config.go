package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
)

const (
	loopback    = "127.0.0.1"
	clusterName = "active"
	storeName   = "memory"
)

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// newConfig is that of one process with all services and its store in memory.
func newConfig(o options) (*config.Config, error) {
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	frontend := hostPort(o.ip, o.port)
	conf := &config.Config{
		Persistence: config.Persistence{
			DefaultStore: storeName, VisibilityStore: storeName, NumHistoryShards: 1,
			DataStores: map[string]config.DataStore{storeName: {SQL: &config.SQL{
				PluginName:        sqlite.PluginName,
				DatabaseName:      "onceguard-" + strconv.Itoa(os.Getpid()),
				ConnectAttributes: map[string]string{"mode": "memory", "cache": "shared"},
			}}},
		},
		ClusterMetadata: &cluster.Config{
			FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
			ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
				Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend, HTTPAddress: hostPort(o.ip, ports[3]),
				ClusterID: "onceguard",
			}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		PublicClient:        config.PublicClient{HostPort: frontend},
		Services: map[string]config.Service{
			string(primitives.FrontendService): service(o.ip, o.port),
			string(primitives.HistoryService):  service(loopback, ports[0]),
			string(primitives.MatchingService): service(loopback, ports[1]),
			string(primitives.WorkerService):   service(loopback, ports[2]),
		},
	}
	web := conf.Services[string(primitives.FrontendService)]
	web.RPC.HTTPPort = ports[3]
	conf.Services[string(primitives.FrontendService)] = web
	conf.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: o.ip}
	conf.Archival.History.State, conf.Archival.Visibility.State = "disabled", "disabled"
	conf.NamespaceDefaults.Archival.History.State = "disabled"
	conf.NamespaceDefaults.Archival.Visibility.State = "disabled"
	return conf, nil
}

func service(ip string, port int) config.Service {
	return config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: ip}}
}

// freePorts are different ones, since all are held until the last is found.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", loopback+":0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
