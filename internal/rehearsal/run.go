package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/controller/nodetaints"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/internal/verdict"
)

// run is one run in progress.
type run struct {
	harness *Harness
	number  int64
	name    string // of the run's world
	plan    sim.Plan
	dir     string
	started time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	world   *runWorld

	proxy       *proxy.Proxy
	record      *proxy.Run
	user        dynamic.Interface
	otherUser   rest.Interface
	controllers sync.WaitGroup
	watchers    sync.WaitGroup // of client processes and delayed actions

	mu             sync.Mutex
	clients        map[string]*client
	closed         bool // the clients have been stopped
	pendingActions int  // actions that faults have delayed
	// clientErr is the first error of a client after its start, because of which the run says nothing about the client.
	clientErr error
	// finalized are the objects to which faults have added the interference finalizer.
	finalized []func(context.Context)
	// created has the manifests of the objects that the user created, by object.
	created map[history.Object][]byte
	// recreating are the objects that a fault has deleted and that do not exist again yet, with whether the user waits for
	// them; recreated are those that exist again, and userDeleted those that the user has deleted.
	recreating, recreated, userDeleted map[history.Object]bool

	monitor *monitor
}

// Play implements sim.World.
func (a *Harness) Play(ctx context.Context, p sim.Plan) (*sim.Outcome, error) {
	r, err := a.begin(ctx, p)
	if r != nil {
		defer r.close()
	}
	if err != nil {
		return nil, err
	}
	if err := r.play(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // an interrupted run has no verdict
		return &sim.Outcome{Run: r.record.End()}, nil
	}
	return r.outcome(ctx)
}

// begin creates the world of a run and starts everything in it except the clients.
func (a *Harness) begin(ctx context.Context, p sim.Plan) (*run, error) {
	n := a.runs.Add(1)
	r := &run{harness: a, number: n, name: fmt.Sprintf("run-%d", n), plan: p, started: time.Now(), clients: map[string]*client{},
		created: map[history.Object][]byte{}, recreating: map[history.Object]bool{}, recreated: map[history.Object]bool{}, userDeleted: map[history.Object]bool{}}
	r.dir = filepath.Join(a.o.Dir, r.name)
	r.ctx, r.cancel = context.WithCancel(ctx)
	var err error
	if r.world, err = a.environment.newWorld(ctx, r.name, p.Seed); err != nil {
		r.cancel()
		return nil, err
	}
	if r.proxy, err = proxy.New(r.world.config("proxy")); err != nil {
		return r, err
	}
	header := history.Header{Tool: a.o.Version, Test: a.o.Scenario.File, Seed: p.Seed}
	hooks := proxy.Hooks{Crash: r.crash, Overlap: r.overlap, Depose: r.depose, Interfere: r.interfere, Guard: r.world.permit, Created: r.world.created}
	if excluded := r.world.excluded; excluded != nil {
		hooks.Ignore = func(o history.Object) bool { return excluded(keyOfObject(o)) }
	}
	r.record, err = r.proxy.Begin(header, p.Faults, hooks)
	if err != nil {
		return r, err
	}
	objects, err := newFollower(r.world.source, verdict.ObjectsOptions{
		Ignored: r.world.unrecorded, Private: a.o.Target != nil, Decodings: a.decodings, Types: scheme.Scheme,
		Now: time.Now, Elapsed: r.elapsed, Run: r.record.Record,
	})
	if err != nil {
		return r, err
	}
	r.monitor = newMonitor(r, objects)
	if r.user, err = dynamic.NewForConfig(r.config("user")); err == nil {
		r.otherUser, err = newOtherUser(r.config(history.OtherUser))
	}
	if err != nil {
		return r, err
	}
	return r, r.startControllers()
}

// startControllers starts the controllers that run alongside the clients.
func (r *run) startControllers() error {
	if r.harness.o.NewControllers == nil || r.harness.o.Target != nil {
		return nil
	}
	run, err := r.harness.o.NewControllers(r.ctx, r.config, r.world.pki)
	if err != nil {
		return err
	}
	r.controllers.Go(func() { run(r.ctx) })
	if hasNodeLifecycle(r.harness.o.Scenario.Controllers) {
		return nil
	}
	taints, err := nodetaints.New(r.config("controllers"))
	if err == nil {
		r.controllers.Go(func() { taints(r.ctx) })
	}
	return err
}

// hasNodeLifecycle reports whether the controllers of a scenario include upstream's node lifecycle controller, which
// sets the taints of nodes. Otherwise the harness does, so that pods are scheduled to nodes that a step creates.
func hasNodeLifecycle(controllers []string) bool {
	for _, name := range controllers {
		switch name {
		case "node-lifecycle-controller", "nodelifecycle", "*":
			return true
		case "-node-lifecycle-controller", "-nodelifecycle":
			return false
		}
	}
	return false
}

// config returns a client configuration for the run's world. Its writes are recorded under the actor's name.
func (r *run) config(actor string) *rest.Config {
	c := r.world.config(actor)
	recorded := func(next http.RoundTripper) http.RoundTripper { return r.proxy.Recorded(actor, next) }
	if c.Transport != nil {
		c.Transport = recorded(c.Transport)
	} else {
		c.Wrap(recorded)
	}
	return c
}

// close stops everything that the run started and discards or restores what the run wrote.
func (r *run) close() {
	r.cancel()
	r.stopClients()
	record := &history.Run{}
	if r.record != nil {
		record = r.record.End()
	}
	r.watchers.Wait()
	r.controllers.Wait()
	if r.world.owns != nil {
		r.removeFinalizers()
	}
	r.world.drop(record, r.writes(record))
	_ = os.RemoveAll(r.dir)
}

// stopClients kills the clients and closes their listeners. When it returns, each request that they sent has
// been carried out or never will be.
func (r *run) stopClients() {
	r.mu.Lock()
	clients := r.clients
	r.clients, r.closed = map[string]*client{}, true
	r.mu.Unlock()
	for _, c := range clients {
		c.stop()
	}
	for _, c := range clients {
		_ = c.listener.Close()
	}
}

// writes returns what clients and users wrote in this run to objects of an external cluster, by key.
func (r *run) writes(record *history.Run) map[string][]write {
	if r.world.owns == nil || r.monitor == nil {
		return nil
	}
	r.world.catchUp(context.WithoutCancel(r.ctx), r.record.Revision())
	j := r.monitor
	j.mu.Lock()
	defer j.mu.Unlock()
	j.takeWrites(r.elapsed())
	steps := attributeChanges(record, j.changes, j.objects.Objects)
	attributeUnanswered(record, j.changes, steps)
	all := map[string][]write{}
	for i, c := range j.changes {
		if steps[i] >= 0 {
			was, is := j.objects.BeforeAndAfter(c)
			all[c.Key] = append(all[c.Key], write{was, is})
		}
	}
	return all
}

func (r *run) elapsed() time.Duration { return time.Since(r.started) }

// play starts the clients, executes the steps of the scenario, and waits until the run is quiescent.
func (r *run) play() error {
	following := make(chan struct{})
	go func() {
		defer close(following)
		r.monitor.follow(r.ctx)
	}()
	err := r.startClients()
	if err == nil {
		err = r.runSteps()
	}
	if err == nil {
		r.awaitEnd()
	}
	r.cancel()
	<-following
	r.stopClients() // a later write would belong to no run
	if failed := r.clientError(); failed != nil {
		return failed
	}
	if errors.Is(err, errRunOver) {
		return nil
	}
	return err
}

// startClients starts the clients and waits until each has sent a request.
func (r *run) startClients() error {
	p := map[string]*output{}
	for i := range r.harness.o.Scenario.Clients {
		spec := &r.harness.o.Scenario.Clients[i]
		p[spec.Name] = &output{}
		c, err := r.newClient(spec, spec.Name, p[spec.Name])
		if err != nil {
			return err
		}
		if !r.addClient(c) {
			return errRunOver
		}
		if err := c.start("", ""); err != nil {
			return &ClientError{Message: err.Error()}
		}
	}
	for i := range r.harness.o.Scenario.Clients {
		if err := r.awaitFirstRequest(r.client(r.harness.o.Scenario.Clients[i].Name)); err != nil {
			return err
		}
	}
	return nil
}

// maxExits is how often a client may exit by itself before its first request.
const maxExits = 2

// awaitFirstRequest waits until a client is working.
func (r *run) awaitFirstRequest(c *client) error {
	deadline := time.Now().Add(r.harness.timeouts.firstRequest)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ends, err := c.state()
		asked, works := c.isWorking(r.started)
		switch {
		case err != nil:
			return &ClientError{Message: err.Error()}
		case works:
			return nil
		case ends > maxExits && !asked:
			return c.clientError("exits immediately")
		case time.Now().After(deadline):
			return c.clientError(fmt.Sprintf("sent no request through its kubeconfig within %s: pass it {{kubeconfig}}, or let it read KUBECONFIG", r.harness.timeouts.firstRequest))
		}
		select {
		case <-tick.C:
		case <-r.monitor.decided:
			return errRunOver
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
	}
}

// addClient adds a client to those that the end of the run stops. It returns false, and closes the client's listener, if the
// run is over: nothing would stop the client, and the end of the run would wait for it without end.
func (r *run) addClient(c *client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = c.listener.Close()
		return false
	}
	r.clients[c.actor] = c
	return true
}

// clientFailed records an error of a client after its start, and ends the run.
func (r *run) clientFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clientErr == nil {
		r.clientErr = err
	}
	r.cancel()
}

func (r *run) clientError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clientErr
}

func (r *run) client(actor string) *client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[actor]
}

// errRunOver stops the steps of a run that already has its verdict.
var errRunOver = errors.New("the run is over")

// afterFault calls do when the time of a fault is over. Until then, the run counts as holding something.
func (r *run) afterFault(f fault.Fault, do func()) {
	done := r.beginAction()
	until := r.monitor.released(f)
	r.watchers.Go(func() {
		defer done()
		select {
		case <-until:
		case <-r.ctx.Done():
		}
		if r.ctx.Err() == nil {
			do()
		}
	})
}

// afterDelay calls do after a delay, unless the run ends first.
func (r *run) afterDelay(d time.Duration, do func()) {
	r.watchers.Go(func() {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			do()
		case <-r.ctx.Done():
		}
	})
}

// isHolding reports whether a fault delays something, or a client that a fault terminated is not working
// again yet. The time that a client needs to start must not count against it.
func (r *run) isHolding() bool {
	r.mu.Lock()
	held := r.pendingActions > 0
	for _, c := range r.clients {
		held = held || c.isStarting()
	}
	r.mu.Unlock()
	return held || r.record.Holds()
}
