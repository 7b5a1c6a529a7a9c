//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// binVariable may hold the folder of PostgreSQL's executables.
const binVariable = "ONCEGUARD_POSTGRES_BIN"

const (
	readyLimit = time.Minute      // from the start of the server to its first answer
	stopLimit  = 10 * time.Second // from the polite signal to the kill
)

var errMissing = errors.New("not found")

// findPostgres returns the folder of initdb and postgres: that of the variable, else
// that of the PATH, else where Debian and Homebrew put them. A variable that points nowhere is
// a mistake to report, not a reason to skip.
func findPostgres() (string, error) {
	if bin := os.Getenv(binVariable); bin != "" {
		if !holdsServer(bin) {
			return "", fmt.Errorf("%s=%q: there are no initdb and postgres", binVariable, bin)
		}
		return bin, nil
	}
	var found []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin",
	} {
		more, _ := filepath.Glob(pattern)
		slices.Reverse(more) // the newest version first
		found = append(found, more...)
	}
	if i := slices.IndexFunc(found, holdsServer); i >= 0 {
		return found[i], nil
	}
	return "", fmt.Errorf("postgres: %w; install it (apt-get install postgresql, brew install postgresql@17) "+
		"or set %s to the folder of its executables", errMissing, binVariable)
}

func holdsServer(bin string) bool {
	return !slices.ContainsFunc([]string{"initdb", "postgres"}, func(name string) bool {
		_, err := exec.LookPath(filepath.Join(bin, name))
		return err != nil
	})
}

// startPostgres starts a server of this test's own, and returns the URL of its database. It
// listens on a socket file in its own directory, so there is no port to choose.
func startPostgres(t *testing.T) string {
	t.Helper()
	bin, err := findPostgres()
	if errors.Is(err, errMissing) && os.Getenv("ONCEGUARD_REQUIRE_SERVERS") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "onceguard-pg-") //nolint:usetesting // the folders around that of a test are closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	as, err := serverUser(dir)
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "onceguard", "-A", "trust", "-E", "UTF8", "--locale=C", "-N") //nolint:noctx // seconds
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off") //nolint:noctx // the cleanup ends it
	server.Dir, server.SysProcAttr = dir, dieWithParent(as)
	url := "host=" + dir + " user=onceguard dbname=postgres"
	output, gone := runServer(t, server)
	waitReady(t, url, output, gone)
	return url
}

// serverUser is who the server runs as: PostgreSQL refuses to be root. The directory becomes
// that one's.
func serverUser(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // as whoever we are
	}
	for _, name := range []string{"postgres", "nobody"} {
		other, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.Atoi(other.Uid)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.Atoi(other.Gid)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, uid, gid)
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user postgres or nobody")
}

// runServer runs the server until the test ends.
func runServer(t *testing.T, server *exec.Cmd) (output *bytes.Buffer, gone <-chan struct{}) {
	t.Helper()
	output = &bytes.Buffer{}
	server.Stdout, server.Stderr, server.WaitDelay = output, output, time.Second
	ended, err := start(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt) // at once, in order
		select {
		case <-ended:
		case <-time.After(stopLimit):
			_ = server.Process.Kill()
			<-ended
		}
	})
	return output, ended
}

func waitReady(t *testing.T, url string, output *bytes.Buffer, gone <-chan struct{}) {
	t.Helper()
	db := openDatabase(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return
		}
		select {
		case <-gone:
			t.Fatalf("postgres ended: %v\n%s", err, output)
		case <-ctx.Done():
			t.Fatalf("postgres is not ready: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func openDatabase(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
