// Package version says which rehearse this is.
//
// A release stamps the three variables with -ldflags -X. Without that (go run, go install, go build) the same facts
// come from what the Go tool recorded in the binary, as far as it recorded them: `go run` knows no commit.
// The Kubernetes level is read from the module graph, so that it cannot differ from the code that is built in.
//
// It prints nothing and it knows no command line; internal/cli does that, and cluster stamps the API server.
//
// Floor: F0, a leaf.
package version

import (
	"runtime"
	"runtime/debug"
)

// Set by -ldflags "-X github.com/rehearse-k8s/rehearse/internal/version.version=v1.2.3" and so on.
var (
	version string
	commit  string
	date    string
)

// kubernetesLevel is the fallback for binaries without module information, such as tests.
const kubernetesLevel = "v1.36.3"

// Info is what `rehearse version` prints.
type Info struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Date       string `json:"date"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Kubernetes string `json:"kubernetes"`
}

// Get collects the facts; what is not known says "unknown", a build without a version says "devel".
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return collect(build)
}

func collect(build *debug.BuildInfo) Info {
	i := Info{
		Version:    version,
		Commit:     commit,
		Date:       date,
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		Kubernetes: kubernetesLevel,
	}
	if build != nil {
		i.fill(build)
	}
	i.Version = first(i.Version, "devel")
	i.Commit = first(i.Commit, "unknown")
	i.Date = first(i.Date, "unknown")
	return i
}

func (i *Info) fill(build *debug.BuildInfo) {
	if v := build.Main.Version; v != "(devel)" {
		i.Version = first(i.Version, v)
	}
	modified := ""
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = first(i.Commit, s.Value)
		case "vcs.time":
			i.Date = first(i.Date, s.Value)
		case "vcs.modified":
			if s.Value == "true" {
				modified = "-dirty"
			}
		}
	}
	if i.Commit != "" && commit == "" {
		i.Commit += modified
	}
	for _, d := range build.Deps {
		if d.Path == "k8s.io/kubernetes" {
			i.Kubernetes = d.Version
		}
	}
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
