package cluster

import (
	"strings"
	_ "unsafe" // for go:linkname

	baseversion "k8s.io/component-base/version"

	"github.com/rehearse-k8s/rehearse/internal/version"
)

// Kubernetes releases get their version from the linker (-X), which `go run` and `go install` cannot pass on, and the
// library's own setter only accepts 0.0.x for a build without it. Without a version kubectl reports v0.0.0 and warns about
// version skew to every server. Therefore go:linkname gives access to the same three variables at compile time.

//go:linkname kubeGitVersion k8s.io/component-base/version.gitVersion
var kubeGitVersion string

//go:linkname kubeGitMajor k8s.io/component-base/version.gitMajor
var kubeGitMajor string

//go:linkname kubeGitMinor k8s.io/component-base/version.gitMinor
var kubeGitMinor string

// setKubectlVersion gives the built-in kubectl the version of the code it consists of.
func setKubectlVersion() {
	level := version.Get().Kubernetes
	parts := strings.SplitN(strings.TrimPrefix(level, "v"), ".", 3)
	if len(parts) < 3 {
		return
	}
	kubeGitVersion, kubeGitMajor, kubeGitMinor = level, parts[0], parts[1]
	_ = baseversion.SetDynamicVersion(level) // it accepts a version that equals gitVersion
}
