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

// client is a client under test in one run: its door, and its process, one life after
// another. A second instance of a client is a client of its own.
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
	process        *process  // nil while it is away
	processStarted time.Time // when it began
	stopped        bool      // the run has ended, or this instance for good
	exits          int       // how often it ended by itself
	startErr       error     // it could not be started
}

// identities are who clients are to the API. A certificate for each is made once.
var identities sync.Map // of func() (*rest.Config, error), by user and groups

// identityOf is a client's own, as its scenario says.
func identityOf(c *v1alpha1.Client) (*rest.Config, error) {
	name, groups := scenario.User(c)
	once, _ := identities.LoadOrStore(strings.Join(append([]string{name}, groups...), "\x00"),
		sync.OnceValues(func() (*rest.Config, error) { return newIdentity(name, groups) }))
	return once.(func() (*rest.Config, error))()
}

// newIdentity is a certificate of a user. Nobody signs it: whose it is the door knows, which was
// given it, and the proxy impersonates that user.
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

// newClient opens the door of a client. Its process is not started yet.
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

// start starts the client's process, with empty caches.
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

// backOff is how long a client that ended by itself is away, as with a kubelet: longer each time.
const restartDelay = 500 * time.Millisecond

// watch starts a process again that has ended by itself.
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
	c.run.record.Add(history.Step{Kind: history.Crash, Actor: c.actor, Note: "ended by itself: " + exitReason(p.err)})
	c.run.afterDelay(time.Duration(ends)*restartDelay, func() { _ = c.start("", "begins anew") })
}

func exitReason(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// crash kills the process, as a fault says, and tells whether there was one.
func (c *client) crash() bool {
	c.mu.Lock()
	p := c.process
	c.process = nil
	c.mu.Unlock()
	if p == nil {
		return false
	}
	p.kill()
	return true
}

// end kills the process for good.
func (c *client) stop() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.crash()
}

// trouble says what is wrong with a client that has not begun to work, in one line and with
// its last words.
func (c *client) clientError(what string) error {
	text := fmt.Sprintf("client %s (%s) %s", c.actor, c.command[0], what)
	if lines := c.output.tail(5); len(lines) > 0 {
		text += "; it printed last:"
		for _, l := range lines {
			text += "\n    " + l
		}
	} else {
		text += "; it has printed nothing"
	}
	return &ClientError{Message: text}
}

// works tells whether the client watches something, or has asked for something and done
// without a watch for as long as only one does that asks again and again.
func (c *client) isWorking(since time.Time) (asked, works bool) {
	asked, watches := c.listener.Requested(since)
	return asked, watches || asked && time.Since(since) > c.run.harness.timeouts.firstRequest/10
}

// begins tells whether the process lives but does not work yet, and may still come to it.
func (c *client) isStarting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil || time.Since(c.processStarted) > c.run.harness.timeouts.firstRequest {
		return false
	}
	_, works := c.isWorking(c.processStarted)
	return !works
}

// state is how often the process has ended by itself, and why it could not be started.
func (c *client) state() (ends int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exits, c.startErr
}

// ClientError says that a client cannot be rehearsed: it does not start, or has nothing to
// do with the API it was given.
type ClientError struct{ Message string }

func (e *ClientError) Error() string { return e.Message }
