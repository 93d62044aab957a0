package apiserver_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// endFatally is the environment variable that makes this binary end like an API server whose hook fails.
const endFatally = "APISERVER_TEST_END_FATALLY"

func fatalMain() {
	apiserver.Quiet()
	klog.ErrorS(errors.New("no etcd"), "Failed to prepare")
	klog.InfoS("Not interesting")
	klog.Infof("Not interesting")
	klog.Fatalf("PostStartHook %q failed: timeout", "rbac/bootstrap-roles")
}

// TestQuiet: the logs of Kubernetes code are discarded, but not the reason why that code terminates the process.
func TestQuiet(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), endFatally+"=yes")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 255 {
		t.Errorf("%v", err)
	}
	got := stderr.String()
	lines := strings.Split(got, "\n")
	if len(lines) < 3 || lines[1] != "Failed to prepare: no etcd" || !strings.HasSuffix(lines[2], `] PostStartHook "rbac/bootstrap-roles" failed: timeout`) ||
		!strings.Contains(got, "fatalMain") || strings.Contains(got, "Not interesting") {
		t.Errorf("%s", got)
	}
}
