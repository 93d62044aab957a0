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
	run     *run
	spec    *v1alpha1.Client
	actor   string
	command []string
	door    *proxy.Listener
	words   map[string]string
	dir     string
	printed *printed

	mu    sync.Mutex
	now   *process  // nil while it is away
	since time.Time // when it began
	over  bool      // the run has ended, or this instance for good
	ends  int       // how often it ended by itself
	error error     // it could not be started
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
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, err
	}
	return &rest.Config{TLSClientConfig: rest.TLSClientConfig{
		CertData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), KeyData: private,
	}}, nil
}

// newClient opens the door of a client. Its process is not started yet.
func (r *run) newClient(spec *v1alpha1.Client, actor string, p *printed) (*client, error) {
	who, err := identityOf(spec)
	if err != nil {
		return nil, err
	}
	c := &client{run: r, spec: spec, actor: actor, command: spec.Command, dir: filepath.Join(r.dir, actor), printed: p}
	if spec.Builtin != "" {
		c.command = r.harness.o.Builtin(spec.Builtin, spec.FeatureGates)
	}
	if c.door, err = r.proxy.Listen(actor, who); err != nil {
		return nil, err
	}
	var file string
	config, err := c.door.Kubeconfig(metav1.NamespaceDefault)
	if err == nil {
		file, err = writeKubeconfig(c.dir, config)
	}
	if err != nil {
		_ = c.door.Close()
		return nil, err
	}
	c.words = map[string]string{"kubeconfig": file, "namespace": metav1.NamespaceDefault, "dir": c.dir, "name": actor}
	return c, nil
}

// start starts the client's process, with empty caches.
func (c *client) start(because, note string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.now != nil {
		return nil
	}
	c.run.record.Add(history.Step{Kind: history.Start, Actor: c.actor, Fault: because, Note: note})
	p, err := launch(c.spec, c.command, c.words, c.dir, func(line string) {
		c.printed.add(line)
		if c.run.harness.o.Logs != nil {
			c.run.harness.o.Logs(c.run.number, c.actor, line)
		}
	})
	if err != nil {
		c.error = err
		return err
	}
	c.now, c.since = p, time.Now()
	c.run.watchers.Go(func() { c.watch(p) })
	return nil
}

// backOff is how long a client that ended by itself is away, as with a kubelet: longer each time.
const backOff = 500 * time.Millisecond

// watch starts a process again that has ended by itself.
func (c *client) watch(p *process) {
	<-p.ended
	if p.wasKilled() {
		return
	}
	c.mu.Lock()
	if c.over || c.now != p {
		c.mu.Unlock()
		return
	}
	c.now = nil
	c.ends++
	ends := c.ends
	c.mu.Unlock()
	c.run.record.Add(history.Step{Kind: history.Crash, Actor: c.actor, Note: "ended by itself: " + endOf(p.err)})
	c.run.after(time.Duration(ends)*backOff, func() { _ = c.start("", "begins anew") })
}

func endOf(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// crash kills the process, as a fault says, and tells whether there was one.
func (c *client) crash() bool {
	c.mu.Lock()
	p := c.now
	c.now = nil
	c.mu.Unlock()
	if p == nil {
		return false
	}
	p.kill()
	return true
}

// end kills the process for good.
func (c *client) end() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.crash()
}

// trouble says what is wrong with a client that has not begun to work, in one line and with
// its last words.
func (c *client) trouble(what string) error {
	text := fmt.Sprintf("client %s (%s) %s", c.actor, c.command[0], what)
	if lines := c.printed.last(5); len(lines) > 0 {
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
func (c *client) works(since time.Time) (asked, works bool) {
	asked, watches := c.door.Requested(since)
	return asked, watches || asked && time.Since(since) > c.run.harness.timeouts.firstRequest/10
}

// begins tells whether the process lives but does not work yet, and may still come to it.
func (c *client) begins() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil || time.Since(c.since) > c.run.harness.timeouts.firstRequest {
		return false
	}
	_, works := c.works(c.since)
	return !works
}

// state is how often the process has ended by itself, and why it could not be started.
func (c *client) state() (ends int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ends, c.error
}

// ClientError says that a client cannot be rehearsed: it does not start, or has nothing to
// do with the API it was given.
type ClientError struct{ Message string }

func (e *ClientError) Error() string { return e.Message }
