package redisx

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/onceguard/onceguard/guard"
)

func TestNew_RefusesWhatItCannotUse(t *testing.T) {
	rdb := connect(t, redis.Options{Addr: "127.0.0.1:1"})
	for _, test := range []struct {
		name    string
		rdb     redis.UniversalClient
		prefix  string
		message string
	}{
		{"no client", nil, "", "client is nil"},
		{"a long prefix", rdb, strings.Repeat("x", 129), "prefix of 129 bytes: longer than 128"},
		{"a control character", rdb, "a\nb", "has control characters"},
		{"bytes that are no text", rdb, "a\xff", "not UTF-8"},
		{"two faults", nil, "a\nb", "client is nil\nprefix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(test.rdb, Options{Prefix: test.prefix})
			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("%v, want %q", err, test.message)
			}
		})
	}
}

func TestNew_TakesAnyClient(t *testing.T) {
	single := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true})
	for rdb, inline := range map[redis.UniversalClient]bool{single: true, cluster: false} {
		store, err := New(rdb, Options{Prefix: "{pay}"})
		if err != nil {
			t.Fatal(err)
		}
		if store.inline != inline {
			t.Errorf("%T: inline %t", rdb, store.inline)
		}
		if store.StoreName() != "redis" {
			t.Errorf("name %q", store.StoreName())
		}
		if err := rdb.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNew_ReadsTheSchemaOfTheGuard(t *testing.T) {
	if recordVersion != guard.SchemaVersion {
		t.Errorf("records of version %d, the guard's are %d", recordVersion, guard.SchemaVersion)
	}
}
