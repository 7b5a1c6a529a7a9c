// Package board reads the committed JSON of the boards the way Grafana does, for tests: what a panel
// asks for, with the variables replaced.
package board

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Board is what is looked at of a dashboard.
type Board struct {
	File          string   `json:"-"`
	UID           string   `json:"uid"`
	Title         string   `json:"title"`
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	Editable      bool     `json:"editable"`
	SchemaVersion int      `json:"schemaVersion"`
	Links         []Link   `json:"links"`
	Panels        []Panel  `json:"panels"`
	Templating    struct {
		List []Variable `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []Annotation `json:"list"`
	} `json:"annotations"`
}

// Link leads to other boards or pages.
type Link struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	URL         string   `json:"url"`
	Tags        []string `json:"tags"`
	IncludeVars bool     `json:"includeVars"`
	KeepTime    bool     `json:"keepTime"`
	Placement   string   `json:"placement"`
}

// Source is a reference to a data source.
type Source struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

// Panel is a panel or the title of a row.
type Panel struct {
	ID          int      `json:"id"`
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Datasource  Source   `json:"datasource"`
	Targets     []Target `json:"targets"`
	GridPos     struct {
		X, Y, W, H int
	} `json:"gridPos"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Options struct {
		Legend *struct {
			ShowLegend *bool `json:"showLegend"`
			Show       *bool `json:"show"`
		} `json:"legend"`
		Tooltip *struct {
			Mode string `json:"mode"`
		} `json:"tooltip"`
	} `json:"options"`
}

// Row says that the panel is the title of a row.
func (p Panel) Row() bool { return p.Type == "row" }

// Target is one query of a panel.
type Target struct {
	RefID      string `json:"refId"`
	Expr       string `json:"expr"`
	Format     string `json:"format"`
	Instant    bool   `json:"instant"`
	Range      bool   `json:"range"`
	Exemplar   bool   `json:"exemplar"`
	Datasource Source `json:"datasource"`
}

// Variable is what the reader chooses at the top of the board.
type Variable struct {
	Name       string          `json:"name"`
	Label      string          `json:"label"`
	Type       string          `json:"type"`
	Datasource Source          `json:"datasource"`
	Definition string          `json:"definition"`
	Query      json.RawMessage `json:"query"`
	Multi      bool            `json:"multi"`
	IncludeAll bool            `json:"includeAll"`
	AllValue   string          `json:"allValue"`
	Refresh    int             `json:"refresh"`
}

// Annotation marks times on all panels.
type Annotation struct {
	Name       string `json:"name"`
	Expr       string `json:"expr"`
	Datasource Source `json:"datasource"`
	Placement  string `json:"placement"`
}

// Load reads all boards of a folder.
func Load(dir string) ([]Board, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	boards := make([]Board, len(files))
	for i, f := range files {
		text, err := os.ReadFile(f) //nolint:gosec // ours
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &boards[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		boards[i].File = filepath.Base(f)
	}
	return boards, nil
}

// Queries are the panels that ask for something: all but the titles of rows.
func (b Board) Queries() []Panel {
	return slices.DeleteFunc(slices.Clone(b.Panels), Panel.Row)
}

var variable = regexp.MustCompile(`\$(\w+)|\$\{(\w+)(?::\w+)?\}`)

// Expand replaces the variables of an expression by the values, as Grafana does. It fails on one that has none.
func Expand(expr string, values map[string]string) (string, error) {
	var unknown error
	expanded := variable.ReplaceAllStringFunc(expr, func(use string) string {
		m := variable.FindStringSubmatch(use)
		name := m[1] + m[2]
		value, ok := values[name]
		if !ok {
			unknown = fmt.Errorf("variable %s has no value in %s", name, expr)
		}
		return value
	})
	return expanded, unknown
}

// All are values for [Expand] that choose everything.
func (b Board) All(rateInterval, timeRange string) map[string]string {
	values := map[string]string{"__rate_interval": rateInterval, "__range": timeRange, "datasource": "prometheus"}
	for _, v := range b.Templating.List {
		if v.Type == "query" {
			values[v.Name] = v.AllValue
		}
	}
	return values
}

var labelValues = regexp.MustCompile(`^label_values\((.+),\s*(\w+)\)$`)

// LabelValues takes the definition of a query variable apart: the values of which label of which series.
func (v Variable) LabelValues() (selector, label string, err error) {
	m := labelValues.FindStringSubmatch(v.Definition)
	if m == nil {
		return "", "", fmt.Errorf("variable %s is no label_values of a series: %s", v.Name, v.Definition)
	}
	return m[1], m[2], nil
}
