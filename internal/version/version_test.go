package version

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCollect(t *testing.T) {
	base := Info{Version: "devel", Commit: "unknown", Date: "unknown", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Kubernetes: "v1.36.3"}
	with := func(change func(*Info)) Info {
		i := base
		change(&i)
		return i
	}
	cases := map[string]struct {
		build *debug.BuildInfo
		want  Info
	}{
		"nothing is known":               {nil, base},
		"go run leaves the word (devel)": {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, base},
		"go install pkg@version": {
			&debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}, Deps: []*debug.Module{{Path: "k8s.io/kubernetes", Version: "v1.36.9"}}},
			with(func(i *Info) { i.Version, i.Kubernetes = "v0.1.0", "v1.36.9" }),
		},
		"go build in a changed checkout": {
			&debug.BuildInfo{Settings: []debug.BuildSetting{
				{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}}},
			with(func(i *Info) { i.Commit, i.Date = "abc-dirty", "2026-01-02T03:04:05Z" }),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, collect(c.build)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestStampWins(t *testing.T) {
	version, commit, date = "v9", "stamped", "today"
	defer func() { version, commit, date = "", "", "" }()
	got := collect(&debug.BuildInfo{Main: debug.Module{Version: "v1"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "other"}, {Key: "vcs.modified", Value: "true"}}})
	if got.Version != "v9" || got.Commit != "stamped" || got.Date != "today" {
		t.Errorf("the linker's stamp must win over the build information, got %+v", got)
	}
}
