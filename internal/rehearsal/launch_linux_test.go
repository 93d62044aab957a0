package rehearsal

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
)

// TestKillSurvivor: a child that has left the process group survives the kill, which reports it and does not wait for it.
func TestKillSurvivor(t *testing.T) {
	lines := make(chan string, 1)
	p, err := launch(&v1alpha1.Client{Name: "a"}, []string{"sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & wait"}, nil, t.TempDir(), func(l string) { lines <- l })
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(<-lines)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(child, syscall.SIGKILL) }()
	p.timeout = time.Millisecond
	for range 2 {
		if !p.kill() {
			t.Error("the child is not reported")
		}
	}
	<-p.exited
}
