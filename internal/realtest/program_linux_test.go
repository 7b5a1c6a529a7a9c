package realtest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/onceguard/onceguard/internal/realtest"
)

// TestRunProgram_DiesWithAKilledTestBinary runs this binary again: the inner one waits for a
// program, the outer one kills it with no chance to clean up.
func TestRunProgram_DiesWithAKilledTestBinary(t *testing.T) {
	const inner = "ONCEGUARD_INNER_PROGRAM"
	if file := os.Getenv(inner); file != "" {
		realtest.RunProgram(t, 0, file)
		return
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	binary := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	binary.Env = append(os.Environ(), inner+"="+file)
	if err := binary.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	eventually(t, "the program runs", func() bool {
		text, _ := os.ReadFile(file)
		line, whole := strings.CutSuffix(string(text), "\n")
		if whole {
			pid, _ = strconv.Atoi(line)
		}
		return pid != 0
	})
	_ = binary.Process.Kill()
	_ = binary.Wait()

	eventually(t, "the program, process "+strconv.Itoa(pid)+", is dead", func() bool { return dead(pid) })
}
