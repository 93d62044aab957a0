//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// idleClientOf returns a client of a run whose program does not exist, and whose listener no request reaches.
func (r *testRun) idleClientOf(actor string) *client {
	c := &client{
		run: r.run, spec: &r.harness.o.Scenario.Clients[0], actor: actor, command: []string{"/no/such/program"},
		listener: &proxy.Listener{}, dir: r.dir, output: &output{},
	}
	r.clients[actor] = c
	return c
}

// running gives a client a process that has not exited.
func (c *client) running() *process {
	c.process, c.processStarted = &process{exited: make(chan struct{})}, time.Now()
	return c.process
}

// steps returns the steps of a run that the harness recorded, one a line.
func (r *testRun) steps() string {
	var lines []string
	record := r.record.Record()
	for n := range record.Steps {
		s := &record.Steps[n]
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", s.At, s.Kind, s.Actor, strings.TrimSpace(s.Fault+" "+s.Note)))
	}
	return strings.Join(lines, "\n")
}

// TestFirstRequestErrors: a client that does not start to work is an error with its name, its program, what it printed
// and what to do; a run that has its verdict or is interrupted no longer waits.
func TestFirstRequestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(r *testRun, c *client)
		want    string
		after   time.Duration
	}{
		"no request": {func(*testRun, *client) {},
			"client copier (/no/such/program) sent no request through its kubeconfig within 30s: pass it {{kubeconfig}}, or let it read KUBECONFIG. It printed nothing", 30 * time.Second},
		"no program": {func(_ *testRun, c *client) { c.startErr = errors.New(`client copier: program "x" not found`) }, `client copier: program "x" not found`, 0},
		"exits three times": {func(_ *testRun, c *client) { c.exits = maxExits + 1; c.output.add("unknown flag") },
			"client copier (/no/such/program) exits immediately. Its last output:\n    unknown flag", 0},
		"may exit twice":  {func(r *testRun, c *client) { c.exits = maxExits; time.AfterFunc(time.Second, r.cancel) }, "context canceled", time.Second},
		"has its verdict": {func(r *testRun, _ *client) { time.AfterFunc(time.Second, func() { close(r.monitor.decided) }) }, "the run is over", time.Second},
	} {
		inRun(t, copyScenario, func(r *testRun) {
			client := r.idleClientOf("copier")
			c.prepare(r, client)
			err := r.awaitFirstRequest(client)
			if took := r.elapsed(); err == nil || err.Error() != c.want || took < c.after || took > c.after+10*time.Millisecond {
				t.Errorf("%s: %v after %s, want %s after %s", name, err, took, c.want, c.after)
			}
			var of *ClientError
			if interrupted := errors.Is(err, context.Canceled) || errors.Is(err, errRunOver); errors.As(err, &of) == interrupted {
				t.Errorf("%s: the error is a %T", name, err)
			}
		})
	}
}

// TestExitedProcess: a client that exits by itself is started again, each time after a longer delay; one that was killed,
// replaced or stopped is not.
func TestExitedProcess(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(c *client, p *process)
		want    string
	}{
		"exits":       {func(*client, *process) {}, "0s crash copier: exited by itself: exit status 3\n500ms start copier: restarted"},
		"third exit":  {func(c *client, _ *process) { c.exits = 2 }, "0s crash copier: exited by itself: exit status 3\n1.5s start copier: restarted"},
		"killed":      {func(_ *client, p *process) { p.killed = true }, ""},
		"replaced":    {func(c *client, _ *process) { c.process = &process{} }, ""},
		"stopped":     {func(c *client, _ *process) { c.stopped = true }, ""},
		"run is over": {func(c *client, _ *process) { time.AfterFunc(100*time.Millisecond, c.run.cancel) }, "0s crash copier: exited by itself: exit status 3"},
	} {
		inRun(t, copyScenario, func(r *testRun) {
			client := r.idleClientOf("copier")
			p := client.running()
			p.err = errors.New("exit status 3")
			c.prepare(client, p)
			close(p.exited)
			client.watch(p)
			r.watchers.Wait()
			equal(t, name, c.want, r.steps())
			ends, err := client.state()
			if started := strings.Contains(c.want, "start"); (err != nil) != started || started && !strings.Contains(err.Error(), `program "/no/such/program" not found`) {
				t.Errorf("%s: after %d exits: %v", name, ends, err)
			}
		})
	}
}

// TestStartOnce: a client that runs, or that was stopped, is not started.
func TestStartOnce(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		c := r.idleClientOf("copier")
		p := c.running()
		if err := c.start("", ""); err != nil || c.process != p {
			t.Errorf("a running client: %v", err)
		}
		c.process, c.stopped = nil, true
		if err := c.start("", ""); err != nil || c.process != nil || c.crash() {
			t.Errorf("a stopped client: %v", err)
		}
		equal(t, "steps", "", r.steps())
	})
}

// TestHolding: a run counts as delayed while a fault delays an action, and while a client that runs does not work yet; a
// client that never works does not delay it for ever.
func TestHolding(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		equal(t, "at first", false, r.isHolding())
		c := r.idleClientOf("copier")
		equal(t, "with a client that does not run", false, r.isHolding())
		c.running()
		equal(t, "with a client that starts", true, r.isHolding())
		<-time.After(r.harness.timeouts.firstRequest)
		equal(t, "with one that still has time", true, r.isHolding())
		<-time.After(1)
		equal(t, "with one that has no time left", false, r.isHolding())
		go r.monitor.follow(r.ctx)
		done := false
		r.afterFault(fault.Fault{For: time.Second}, func() { done = true })
		equal(t, "with a delayed action", true, r.isHolding())
		r.watchers.Wait()
		if r.isHolding() || !done {
			t.Errorf("after the action: delayed %t, done %t", r.isHolding(), done)
		}
	})
}

// TestDelayedActionsEnd: a delayed action does not happen once the run is over, and a run is over only when none remains.
func TestDelayedActionsEnd(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		never := func() { t.Error("an action after the end of the run") }
		r.afterFault(fault.Fault{For: time.Hour}, never)
		r.afterFault(fault.Fault{}, never)
		r.afterDelay(time.Hour, never)
		r.cancel()
		r.watchers.Wait()
		equal(t, "pending", 0, r.pendingActions)
		equal(t, "took", time.Duration(0), r.elapsed())
	})
}

// TestCrashFault: a crash restarts the process at once, or after the fault's time; without a process it has no effect.
func TestCrashFault(t *testing.T) {
	for name, c := range map[string]struct {
		fault   string
		running bool
		want    string
	}{
		"at once":      {"crash-after actor=copier verb=create", true, "0s start copier: crash-after actor=copier verb=create restarted"},
		"after 2s":     {"crash-after actor=copier verb=create for=2s", true, "2s start copier: crash-after actor=copier verb=create for=2s restarted"},
		"not running":  {"crash-after actor=copier verb=create", false, ""},
		"other client": {"crash-after actor=other verb=create", true, ""},
	} {
		f, err := fault.Parse(c.fault)
		if err != nil {
			t.Fatal(err)
		}
		inRun(t, copyScenario, func(r *testRun) {
			r.harness.timeouts.firstRequest = 0
			client := r.idleClientOf("copier")
			if c.running {
				p, err := launch(client.spec, []string{"sh", "-c", "exit 0"}, nil, r.dir, func(string) {})
				if err != nil {
					t.Fatal(err)
				}
				<-p.exited
				client.process = p
			}
			go r.monitor.follow(r.ctx)
			actor, _, _ := strings.Cut(strings.TrimPrefix(c.fault, "crash-after actor="), " ")
			r.crash(actor, f)
			r.watchers.Wait()
			equal(t, name, c.want, r.steps())
			// The program does not exist: a run without its client says nothing about it.
			want := ""
			if c.want != "" {
				want = `client copier: program "/no/such/program" not found: fork/exec /no/such/program: no such file or directory; it has run before, and could not be started again`
			}
			equal(t, name+": error", want, errorText(r.clientError()))
			equal(t, name+": the run is over", want != "", r.ctx.Err() != nil)
		})
	}
}

// TestOverlapOnce: a client that has a second instance gets no third, and a client that does not exist gets none.
func TestOverlapOnce(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		r.idleClientOf("copier")
		r.idleClientOf("copier+")
		for _, actor := range []string{"copier", "other"} {
			r.overlap(actor, fault.Fault{Kind: fault.KindOverlap})
		}
		equal(t, "steps", "", r.steps())
		equal(t, "clients", 2, len(r.clients))
	})
}

// TestUserMeetsRecreation: the user repeats a step that met the time without an object also if the object exists again by then,
// and a fault waits for the answers to the writes of the user to that object alone.
func TestUserMeetsRecreation(t *testing.T) {
	inRun(t, copyScenario, func(r *testRun) {
		on := v1alpha1.Reference{Resource: "pods", Namespace: "default"}
		o := history.Object{Resource: "pods", Namespace: "default", Name: "copy-a"}
		r.recreated = map[history.Object]bool{}
		equal(t, "before", false, r.awaitAgain(on, "copy-a"))
		r.endRecreation(o)
		equal(t, "afterwards", true, r.awaitAgain(on, "copy-a"))
		equal(t, "another object", false, r.awaitAgain(on, "copy-b"))
	})
	o := history.Object{Resource: "pods", Namespace: "default", Name: "copy-a"}
	write := history.Step{Kind: history.Request, Actor: history.User, Verb: "patch", Object: o}
	write.UID = "u"
	answered, other, read := write, write, write
	answered.Code, other.Name, read.Verb = 200, "copy-b", "get"
	equal(t, "a write without an answer", true, userWrites([]history.Step{answered, write}, o))
	equal(t, "others", false, userWrites([]history.Step{answered, other, read}, o))
}

// TestManifestBeforeAnswer: the manifest of an object is known while the user's create is on its way. Clients may observe the object before the user
// receives the answer, and a fault that creates it again then needs the manifest. A rejected create leaves what was known before.
func TestManifestBeforeAnswer(t *testing.T) {
	o := history.Object{Resource: "pods", Namespace: "default", Name: "copy-a"}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "copy-a", "namespace": "default"}}
	create := &scenario.Step{Kind: scenario.Create, Objects: []map[string]any{pod}}
	inRun(t, copyScenario, func(r *testRun) {
		r.created, r.userDeleted = map[history.Object][]byte{}, map[history.Object]bool{}
		var sent []byte
		user, err := dynamic.NewForConfig(&rest.Config{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			sent = r.created[o]
			return nil, errors.New("no API server")
		})})
		if err != nil {
			t.Fatal(err)
		}
		r.user = user
		for _, old := range [][]byte{nil, []byte(`{"of": "a deleted one"}`)} {
			r.created[o], r.userDeleted[o] = old, old != nil
			if err := r.step(create); err == nil {
				t.Error("the create was not rejected")
			}
			equal(t, "when the request was sent", true, strings.Contains(string(sent), `"copy-a"`))
			equal(t, "afterwards", string(old), string(r.created[o]))
			equal(t, "deleted", old != nil, r.userDeleted[o])
		}
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
