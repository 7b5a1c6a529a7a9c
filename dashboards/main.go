// Dashboards makes the Grafana boards and the Prometheus rules of onceguard.
//
//	go -C dashboards run .                  says which committed file is stale, and fails if one is
//	go -C dashboards run . -update          writes them
//	go -C dashboards run . -speed 60        prints the rules, 60 times faster
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/onceguard/onceguard/dashboards/internal/boards"
	"github.com/onceguard/onceguard/dashboards/rules"
)

func main() {
	update := flag.Bool("update", false, "write the files")
	speed := flag.Int("speed", 0, "print the rules with every duration divided by this")
	dir := flag.String("dir", ".", "folder of the boards")
	flag.Parse()
	if err := run(*dir, *update, *speed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, update bool, speed int) error {
	if speed > 0 {
		text, err := rules.New(speed).YAML()
		fmt.Printf("%s", text)
		return err
	}
	files, err := generate()
	if err != nil {
		return err
	}
	each := check
	if update {
		each = write
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		err = errors.Join(err, each(filepath.Join(dir, name), files[name]))
	}
	return err
}

// generate makes the text of every file.
func generate() (map[string][]byte, error) {
	files, err := boards.Make()
	if err != nil {
		return nil, err
	}
	files[filepath.Join("rules", "onceguard.rules.yml")], err = rules.New(1).YAML()
	return files, err
}

func write(name string, text []byte) error { return os.WriteFile(name, text, 0o644) } //nolint:gosec // public

func check(name string, text []byte) error {
	committed, err := os.ReadFile(name) //nolint:gosec // ours
	if err == nil && !bytes.Equal(committed, text) {
		err = fmt.Errorf("%s is stale: run scripts/dashboards.sh -update", name)
	}
	return err
}
