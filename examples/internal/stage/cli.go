package stage

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// FindCLI returns the path of the Temporal CLI, which has the dev server: the one that the environment
// names, or the one on the PATH. Without either the path is empty, and pinned is the module
// of the repository that pins one, see [BuildArgs].
func FindCLI() (path, pinned string, err error) {
	if path := os.Getenv("ONCEGUARD_TEMPORAL"); path != "" {
		path, err = exec.LookPath(path)
		return path, "", err
	}
	if path, err := exec.LookPath("temporal"); err == nil {
		return path, "", nil
	}
	pinned, err = pinnedModule()
	return "", pinned, err
}

// BuildArgs are the arguments of the go command that, in the module that pins it, builds the CLI into
// the Go build cache the first time, and prints its path.
func BuildArgs() []string { return []string{"tool", "-n", "temporal"} }

// BuildEnv is added to the environment of that command.
func BuildEnv() []string { return []string{"GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"} }

// ServerArgs are the arguments of the CLI for a dev server that keeps everything in memory.
func ServerArgs(port string) []string {
	return []string{
		"server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port, "--log-level", "never",
		// By default every activity timeout fires up to a second late.
		"--dynamic-config-value", `history.timerProcessorMaxTimeShift="1ms"`,
	}
}

// pinnedModule looks for tools/temporal above the working directory.
func pinnedModule() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		module := filepath.Join(dir, "tools", "temporal")
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no temporal on the PATH and no tools/temporal above the working directory: " +
				"run this inside the repository, or set ONCEGUARD_TEMPORAL to the path of the Temporal CLI")
		}
		dir = filepath.Dir(dir)
	}
}
