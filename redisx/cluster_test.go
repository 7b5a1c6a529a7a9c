package redisx

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/internal/realtest"
)

// clusterServer is a node of a cluster that has no slots yet. By default a node talks to
// the others on its port plus 10,000, which may be taken or no port at all.
func clusterServer(t *testing.T) *realtest.RedisServer {
	t.Helper()
	bus := strconv.Itoa(realtest.FreePort(t))
	return realtest.Redis(t, "--cluster-enabled", "yes", "--cluster-port", bus)
}

// cluster is a client of two nodes with half of the slots each.
func cluster(t *testing.T) (*redis.ClusterClient, []*realtest.RedisServer) {
	t.Helper()
	nodes := []*realtest.RedisServer{clusterServer(t), clusterServer(t)}
	meet := []any{"cluster", "meet"}
	for i, node := range nodes {
		rdb := node.Client(t)
		if err := rdb.ClusterAddSlotsRange(t.Context(), i*8192, i*8192+8191).Err(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(node.Addr())
		bus, err := rdb.ConfigGet(t.Context(), "cluster-port").Result()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			meet = append(meet, host, port, bus["cluster-port"])
		} else if err := rdb.Do(t.Context(), meet...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range nodes {
		rdb := node.Client(t)
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			info, err := rdb.ClusterInfo(t.Context()).Result()
			if err == nil && strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_ok:16384") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the cluster does not come up: %v\n%s", err, info)
			}
		}
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, nodes
}

func TestList_OfAClusterWalksItsNodes(t *testing.T) {
	t.Parallel()
	rdb, nodes := cluster(t)
	store := newStore(t, rdb)
	want := map[guard.Key]bool{}
	for i := range 300 {
		key := guard.Key{Operation: "payment.charge", Name: strconv.Itoa(i)}
		acquire(t, store, key, guard.Owner{Token: "a"}, testLease)
		want[key] = true
	}
	for _, node := range nodes {
		size, err := node.Client(t).DBSize(t.Context()).Result()
		if err != nil || size < 50 {
			t.Errorf("%d records on a node (%v), want about half", size, err)
		}
	}
	got := listAll(t, store, guard.ListRequest{Limit: 20}, func(page int) {
		if page == 3 { // on one of them
			if err := nodes[0].Client(t).ScriptFlush(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}
	})
	wantKeys(t, got, want)

	_, err := store.List(t.Context(), guard.ListRequest{Cursor: "0@127.0.0.1:1", Limit: 1})
	if err == nil || !strings.Contains(err.Error(), "begin with an empty one") {
		t.Errorf("a node that is gone: %v", err)
	}
}

func TestHold_OnACluster(t *testing.T) {
	t.Parallel()
	rdb, _ := cluster(t)
	store, key := newStore(t, rdb), testKey(t)
	rec := dead(t, store, key)
	if got := mustReserve(t, store, dispatched(key, "b", testLease)); !got.Held {
		t.Errorf("found: %+v", got)
	}
	reply := mustResolve(t, store, guard.ResolveRequest{
		Key: key, Fence: rec.Fence, Resolver: guard.Owner{Token: "r"}, As: guard.StatusReleased, Lease: testLease,
	})
	if !reply.Resolved {
		t.Errorf("resolved: %+v", reply)
	}
}

// wrapped is a client behind a wrapper that hides what it is.
type wrapped struct{ redis.UniversalClient }

func TestList_RefusesAClientThatDoesNotSayHowManyServersItHas(t *testing.T) {
	t.Parallel()
	store := newStore(t, wrapped{realtest.SharedRedis(t).Client(t)})
	if _, err := store.List(t.Context(), guard.ListRequest{Limit: 10}); err == nil || !strings.Contains(err.Error(), "does not say") {
		t.Errorf("got %v", err)
	}
}

func TestNew_RefusesARing(t *testing.T) {
	t.Parallel()
	rdb := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = rdb.Close() })
	if _, err := New(rdb, Options{}); err == nil || !strings.Contains(err.Error(), "Ring") {
		t.Errorf("got %v", err)
	}
}
