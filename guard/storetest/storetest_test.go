package storetest_test

import (
	"testing"

	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/guard/storetest"
)

func TestMemoryStore_KeepsTheContract(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		New: func(*testing.T) guard.Store { return guard.NewMemoryStore() },
	})
}
