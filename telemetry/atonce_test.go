package telemetry_test

import (
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/telemetry"
)

func TestNew_ManyAtOnceOnOneRegistryLeaveOneSeriesOfTheSettings(t *testing.T) {
	t.Parallel()
	for range 300 {
		registry := prometheus.NewRegistry()
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				tel, err := telemetry.New(telemetry.Options{Registerer: registry})
				if err != nil {
					t.Error(err)
					return
				}
				<-begin
				mode := []guard.StorageErrorMode{guard.FailOpen, guard.FailClosed}[i%2]
				tel.Operation(guard.OperationInfo{Name: opName, OnStorageError: mode})
			})
		}
		close(begin)
		all.Wait()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if n := len(f.GetMetric()); f.GetName() == telemetry.MetricOperationInfo && n != 1 {
				t.Fatalf("%d series of the settings of one operation, want one", n)
			}
		}
	}
}
