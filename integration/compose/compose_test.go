package compose

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../.."

// load reads the compose file as docker compose does, without the environment of who runs the test.
func load(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yml")})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCompose_HasTheServices(t *testing.T) {
	t.Parallel()
	got := slices.Sorted(maps.Keys(load(t).Services))
	want := []string{"demo", "grafana", "jaeger", "prometheus", "redis", "temporal"}
	if !slices.Equal(got, want) {
		t.Errorf("services %v, want %v", got, want)
	}
}

func TestCompose_OpensPortsOnThisMachineOnly(t *testing.T) {
	t.Parallel()
	for name, service := range load(t).Services {
		if service.NetworkMode != "" || service.Privileged {
			t.Errorf("%s: network mode %q, privileged %v", name, service.NetworkMode, service.Privileged)
		}
		for _, port := range service.Ports {
			if ip := net.ParseIP(port.HostIP); ip == nil || !ip.IsLoopback() {
				t.Errorf("%s: port %s is open on %q", name, port.Published, port.HostIP)
			}
		}
	}
}

func TestCompose_MountsFilesThatExistAndNoneToWriteTo(t *testing.T) {
	t.Parallel()
	for name, service := range load(t).Services {
		for _, volume := range service.Volumes {
			if volume.Type != types.VolumeTypeBind || !volume.ReadOnly {
				t.Errorf("%s: %s is no read-only file of the repository", name, volume.Target)
			}
			if _, err := os.Stat(volume.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestCompose_ChecksTheHealthOfEachService(t *testing.T) {
	t.Parallel()
	project := load(t)
	for name, service := range project.Services {
		if service.HealthCheck == nil || len(service.HealthCheck.Test) < 2 || service.HealthCheck.Retries == nil {
			t.Errorf("%s has no health check", name)
		}
		for on, condition := range service.DependsOn {
			if _, ok := project.Services[on]; !ok || condition.Condition == "" {
				t.Errorf("%s depends on %s", name, on)
			}
		}
	}
}

var secret = regexp.MustCompile(`(?i)password|secret|token|api_?key`)

func TestCompose_HasNoSecrets(t *testing.T) {
	t.Parallel()
	project := load(t)
	if len(project.Secrets) > 0 {
		t.Errorf("secrets: %v", project.Secrets)
	}
	for name, service := range project.Services {
		for variable, value := range service.Environment {
			if secret.MatchString(variable) || value == nil {
				t.Errorf("%s: %s", name, variable)
			}
		}
	}
}

func TestCompose_BuildsTheDemoAsAUserWithoutRights(t *testing.T) {
	t.Parallel()
	demo := load(t).Services["demo"]
	if demo.Build == nil || demo.Build.Dockerfile != "deploy/Dockerfile" {
		t.Fatalf("build: %+v", demo.Build)
	}
	docker := read(t, "deploy", "Dockerfile")
	if user := regexp.MustCompile(`(?m)^USER (\d+):\d+$`).FindStringSubmatch(docker); user == nil || user[1] == "0" {
		t.Errorf("user: %q", user)
	}
	if !strings.Contains(docker, `ENTRYPOINT ["`+demo.HealthCheck.Test[1]+`"]`) {
		t.Errorf("the health check runs %q, which is not the entry point", demo.HealthCheck.Test[1])
	}
	for _, line := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllStringSubmatch(docker, -1) {
		for path := range strings.FieldsSeq(line[1]) {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Error(err)
			}
		}
	}
	for ignored := range strings.FieldsSeq(read(t, "deploy", "Dockerfile.dockerignore")) {
		if slices.Contains([]string{"examples", "guard", "redisx", "telemetry", "temporalx", "internal"}, ignored) {
			t.Errorf("the build needs %s, which is ignored", ignored)
		}
	}
}

// The one list of the images is in the docs: each has a tag that is no moving one.
func TestCompose_NamesEachImageInTheDocs(t *testing.T) {
	t.Parallel()
	var images []string
	for _, service := range load(t).Services {
		if service.Image != "" {
			images = append(images, service.Image)
		}
	}
	for _, from := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(read(t, "deploy", "Dockerfile"), -1) {
		if from[1] != "scratch" {
			images = append(images, from[1])
		}
	}
	_, list, _ := strings.Cut(read(t, "deploy", "README.md"), "## What has not been run")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(list, -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(images)
	slices.Sort(listed)
	if !slices.Equal(images, listed) {
		t.Errorf("images %v, in the docs %v", images, listed)
	}
	for _, image := range images {
		if _, tag, ok := strings.Cut(image, ":"); !ok || tag == "latest" {
			t.Errorf("%s has no tag that stays", image)
		}
	}
}
