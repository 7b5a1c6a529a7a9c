package compose

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v3"

	"github.com/onceguard/onceguard/internal/realtest"
)

// The fields that Grafana's documentation lists, and that are used here.
type (
	datasources struct {
		APIVersion  int          `yaml:"apiVersion"`
		Datasources []datasource `yaml:"datasources"`
	}
	datasource struct {
		Name      string `yaml:"name"`
		UID       string `yaml:"uid"`
		Type      string `yaml:"type"`
		Access    string `yaml:"access"`
		URL       string `yaml:"url"`
		IsDefault bool   `yaml:"isDefault"`
		Editable  bool   `yaml:"editable"`
		JSONData  struct {
			HTTPMethod   string     `yaml:"httpMethod"`
			TimeInterval string     `yaml:"timeInterval"`
			Exemplars    []exemplar `yaml:"exemplarTraceIdDestinations"`
		} `yaml:"jsonData"`
	}
	exemplar struct {
		Name            string `yaml:"name"`
		DatasourceUID   string `yaml:"datasourceUid"`
		URLDisplayLabel string `yaml:"urlDisplayLabel"`
	}
	providers struct {
		APIVersion int        `yaml:"apiVersion"`
		Providers  []provider `yaml:"providers"`
	}
	provider struct {
		Name                  string `yaml:"name"`
		Folder                string `yaml:"folder"`
		Type                  string `yaml:"type"`
		DisableDeletion       bool   `yaml:"disableDeletion"`
		AllowUIUpdates        bool   `yaml:"allowUiUpdates"`
		UpdateIntervalSeconds int    `yaml:"updateIntervalSeconds"`
		Options               struct {
			Path string `yaml:"path"`
		} `yaml:"options"`
	}
)

func decode(t *testing.T, text string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func TestGrafana_GetsDataSourcesWhoseExemplarsLeadToTraces(t *testing.T) {
	t.Parallel()
	var got datasources
	decode(t, read(t, "deploy", "grafana", "datasources", "onceguard.yml"), &got)
	services := load(t).Services
	byType := map[string]datasource{}
	for _, source := range got.Datasources {
		byType[source.Type] = source
		host, _, _ := strings.Cut(strings.TrimPrefix(source.URL, "http://"), ":")
		if _, ok := services[host]; !ok || source.UID == "" || source.Access != "proxy" {
			t.Errorf("%+v", source)
		}
	}
	metrics, traces := byType["prometheus"], byType["jaeger"]
	if got.APIVersion != 1 || len(got.Datasources) != 2 || !metrics.IsDefault {
		t.Errorf("%+v", got)
	}
	if e := metrics.JSONData.Exemplars; len(e) != 1 || e[0].Name != "trace_id" || e[0].DatasourceUID != traces.UID {
		t.Errorf("exemplars: %+v, traces are in %s", e, traces.UID)
	}
	if scrape := "scrape_interval: " + metrics.JSONData.TimeInterval; !strings.Contains(read(t, "deploy", "prometheus", "prometheus.yml"), scrape) {
		t.Errorf("Prometheus has no %s", scrape)
	}
}

func TestGrafana_FindsEveryBoardWhereItLooks(t *testing.T) {
	t.Parallel()
	var got providers
	decode(t, read(t, "deploy", "grafana", "dashboards", "onceguard.yml"), &got)
	if got.APIVersion != 1 || len(got.Providers) != 1 || got.Providers[0].Type != "file" {
		t.Fatalf("%+v", got)
	}
	grafana := load(t).Services["grafana"]
	var mounted []string
	for _, volume := range grafana.Volumes {
		if filepath.Dir(volume.Target) == got.Providers[0].Options.Path {
			mounted = append(mounted, filepath.Base(volume.Source))
		}
	}
	boards, err := filepath.Glob(filepath.Join(root, "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i, board := range boards {
		boards[i] = filepath.Base(board)
	}
	slices.Sort(mounted)
	if !slices.Equal(mounted, boards) {
		t.Errorf("mounted %v, there are %v", mounted, boards)
	}
	if home := grafana.Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; home == nil ||
		!slices.ContainsFunc(grafana.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == *home }) {
		t.Errorf("the home board is not mounted: %v", home)
	}
}

// A board that names a data source by uid would look for one that is not provisioned.
func TestGrafana_BoardsAskForTheirDataSourceByAVariable(t *testing.T) {
	t.Parallel()
	boards, err := filepath.Glob(filepath.Join(root, "dashboards", "*.json"))
	if err != nil || len(boards) == 0 {
		t.Fatal(boards, err)
	}
	for _, path := range boards {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var board any
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		found := 0
		walk(board, func(key string, value any) {
			source, ok := value.(map[string]any)
			if key != "datasource" || !ok {
				return
			}
			found++
			if uid := source["uid"]; uid != "${datasource}" && uid != "$datasource" && uid != "-- Grafana --" {
				t.Errorf("%s: data source %v", path, source)
			}
		})
		if found == 0 {
			t.Errorf("%s: no data source", path)
		}
	}
}

func walk(node any, visit func(key string, value any)) {
	switch node := node.(type) {
	case map[string]any:
		for key, value := range node {
			visit(key, value)
			walk(value, visit)
		}
	case []any:
		for _, value := range node {
			walk(value, visit)
		}
	}
}

// promtool sees the files where the container has them.
func TestPrometheus_TakesItsConfigurationWithTheRules(t *testing.T) {
	t.Parallel()
	promtool := realtest.Promtool(t)
	project := load(t)
	prometheus := project.Services["prometheus"]
	container := t.TempDir()
	rules := 0
	for _, volume := range prometheus.Volumes {
		text, err := os.ReadFile(volume.Source)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(container, volume.Target)
		if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(target, text, 0o600); err != nil {
			t.Fatal(err)
		}
		rules += strings.Count(string(text), "alert: ")
	}
	config := ""
	for _, flag := range prometheus.Command {
		if path, ok := strings.CutPrefix(flag, "--config.file="); ok {
			config = filepath.Join(container, path)
		}
	}
	out, err := exec.CommandContext(t.Context(), promtool, "check", "config", config).CombinedOutput()
	if err != nil || rules == 0 || !strings.Contains(string(out), "rules found") {
		t.Errorf("%d alerts, %v: %s", rules, err, out)
	}
	if !slices.Contains(prometheus.Command, "--enable-feature=exemplar-storage") {
		t.Error("exemplars are not kept")
	}
	for _, target := range []string{"demo:9464"} {
		name, port, _ := strings.Cut(target, ":")
		service, ok := project.Services[name]
		if !ok || len(service.Ports) != 1 || service.Ports[0].Published != port || !strings.Contains(read(t, "deploy", "prometheus", "prometheus.yml"), target) {
			t.Errorf("Prometheus does not scrape %s", target)
		}
	}
}
