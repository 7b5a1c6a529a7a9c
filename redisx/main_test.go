package redisx_test

import (
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.Main(m) }
