package rehearsal

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/proxy"
	"github.com/rehearse-k8s/rehearse/scenario"
)

// client is a client under test in one run: its listener and its current process. A second instance of a
// client is another client.
type client struct {
	run          *run
	spec         *v1alpha1.Client
	actor        string
	command      []string
	listener     *proxy.Listener
	placeholders map[string]string
	dir          string
	output       *output

	mu             sync.Mutex
	process        *process  // nil while no process runs
	processStarted time.Time // when process started
	stopped        bool      // the client must not start again
	exits          int       // how often the process exited by itself
	startErr       error     // why the process could not be started
}

// identities caches the certificate of each user.
var identities sync.Map // of func() (*rest.Config, error), by user and groups

// identityOf returns the identity that the scenario gives a client.
func identityOf(c *v1alpha1.Client) (*rest.Config, error) {
	name, groups := scenario.User(c)
	once, _ := identities.LoadOrStore(strings.Join(append([]string{name}, groups...), "\x00"),
		sync.OnceValues(func() (*rest.Config, error) { return newIdentity(name, groups) }))
	return once.(func() (*rest.Config, error))()
}

// newIdentity returns a self-signed certificate of a user. No authority signs it: the listener knows its
// owner, and the proxy impersonates that user.
func newIdentity(name string, groups []string) (*rest.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), KeyData: keyPEM,
	}}, nil
}

// newClient opens the listener of a client. It does not start a process.
func (r *run) newClient(spec *v1alpha1.Client, actor string, p *output) (*client, error) {
	who, err := identityOf(spec)
	if err != nil {
		return nil, err
	}
	c := &client{run: r, spec: spec, actor: actor, command: spec.Command, dir: filepath.Join(r.dir, actor), output: p}
	if spec.Builtin != "" {
		c.command = r.harness.o.Builtin(spec.Builtin, spec.FeatureGates)
	}
	if c.listener, err = r.proxy.Listen(actor, who); err != nil {
		return nil, err
	}
	var file string
	config, err := c.listener.Kubeconfig(metav1.NamespaceDefault)
	if err == nil {
		file, err = writeKubeconfig(c.dir, config)
	}
	if err != nil {
		_ = c.listener.Close()
		return nil, err
	}
	c.placeholders = map[string]string{"kubeconfig": file, "namespace": metav1.NamespaceDefault, "dir": c.dir, "name": actor}
	return c, nil
}

// start starts the client's process, whose caches are empty.
func (c *client) start(because, note string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.process != nil {
		return nil
	}
	c.run.record.Add(history.Step{Kind: history.Start, Actor: c.actor, Fault: because, Note: note})
	p, err := launch(c.spec, c.command, c.placeholders, c.dir, func(line string) {
		c.output.add(line)
		if c.run.harness.o.Logs != nil {
			c.run.harness.o.Logs(c.run.number, c.actor, line)
		}
	})
	if err != nil {
		c.startErr = err
		return err
	}
	c.process, c.processStarted = p, time.Now()
	c.run.watchers.Go(func() { c.watch(p) })
	return nil
}

// restart starts the client's process again. Without it, the run would say nothing about the client.
func (c *client) restart(because, note string) {
	if err := c.start(because, note); err != nil {
		c.run.clientFailed(&ClientError{Message: err.Error() + "; it has run before, and could not be started again"})
	}
}

// restartDelay is the delay before a client that exited by itself is started again, multiplied by the number
// of its exits, as a kubelet does.
const restartDelay = 500 * time.Millisecond

// watch restarts a process that exited by itself.
func (c *client) watch(p *process) {
	<-p.exited
	if p.wasKilled() {
		return
	}
	c.mu.Lock()
	if c.stopped || c.process != p {
		c.mu.Unlock()
		return
	}
	c.process = nil
	c.exits++
	ends := c.exits
	c.mu.Unlock()
	c.run.record.Add(history.Step{Kind: history.Crash, Actor: c.actor, Note: "exited by itself: " + exitReason(p.err)})
	c.run.afterDelay(time.Duration(ends)*restartDelay, func() { c.restart("", "restarted") })
}

func exitReason(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// crash kills the process because of a fault. It reports whether a process was running.
func (c *client) crash() bool {
	c.mu.Lock()
	p := c.process
	c.process = nil
	c.mu.Unlock()
	if p == nil {
		return false
	}
	if p.kill() {
		c.run.clientFailed(c.clientError("has started a process that left its process group and still runs after the client was killed: start it without setsid, and let the client end its children"))
	}
	return true
}

// stop kills the process and prevents another start.
func (c *client) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.crash()
}

// clientError returns an error about a client that did not start to work, with the last lines that it
// printed.
func (c *client) clientError(what string) error {
	text := fmt.Sprintf("client %s (%s) %s", c.actor, c.command[0], what)
	if lines := c.output.tail(5); len(lines) > 0 {
		text += ". Its last output:"
		for _, l := range lines {
			text += "\n    " + l
		}
	} else {
		text += ". It printed nothing"
	}
	return &ClientError{Message: text}
}

// isWorking reports whether the client sent a request since a time (asked), and whether it watches a
// resource, or has gone without a watch for long enough to be a client that polls (works).
func (c *client) isWorking(since time.Time) (asked, works bool) {
	asked, watches := c.listener.Requested(since)
	return asked, watches || asked && time.Since(since) > c.run.harness.timeouts.firstRequest/10
}

// isStarting reports whether the process runs, does not work yet, and still has time to start.
func (c *client) isStarting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil || time.Since(c.processStarted) > c.run.harness.timeouts.firstRequest {
		return false
	}
	_, works := c.isWorking(c.processStarted)
	return !works
}

// state returns how often the process exited by itself, and why it could not be started.
func (c *client) state() (ends int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exits, c.startErr
}

// ClientError reports a client that cannot be tested: it does not start, or it does not use the API that it
// was given.
type ClientError struct{ Message string }

func (e *ClientError) Error() string { return e.Message }
