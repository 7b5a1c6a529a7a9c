package main

import (
	"regexp"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

func TestMain(m *testing.M) { realtest.ProgramMain(m, main) }

func TestResume_PostsEachBatchOnce(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	realtest.MustMatch(t, realtest.RunProgram(t, 0, "-temporal", temporal, "-redis", redis),
		`attempt 1 begins with batch 1\n`,
		`batch 2: executed\nattempt 1 hangs`,
		`attempt 2 begins with batch [12]\n`,
		`batch 2: replayed\n`,
		`dies: batch 4 is posted, and no heartbeat says so`,
		`attempt 3 begins with batch [2-4]\n`, // not from the beginning
		`batch 4: replayed\n`,
		`dies: batch 7 is posted, and nobody knows`,
		`attempt 4 begins with batch [3-7]\n`,
		`batch 7: recovered\n`,
		`each batch was posted once`,
	)
}

func TestResume_FailsWithTheGuardSwitchedOff(t *testing.T) {
	t.Parallel()
	temporal, redis := realtest.SharedTemporal(t).Addr(), realtest.SharedRedis(t).Addr()
	output := realtest.RunProgram(t, 1, "-guard=off", "-temporal", temporal, "-redis", redis)
	realtest.MustMatch(t, output, `FAILED`, `batch/2 was posted [2-9] times`, `batch/4 was posted [2-9] times`, `batch/7 was posted [2-9] times`)
	if regexp.MustCompile(`each batch was posted once`).MatchString(output) {
		t.Errorf("the program failed and says that it did not:\n%s", output)
	}
}
