package stages

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/stage"
)

// addresses assigns the addresses of nodes and pods. It never assigns an address to two pods in use or to two
// nodes, or outside its ranges, and it keeps the addresses that objects already have. A pod is in use until it
// is deleted or has reached a terminal phase, when a real network releases its address too.
//
// The search for a free address starts at a place that depends only on (seed, owner), so the order of requests
// changes an address only if two owners collide.
type addresses struct {
	seed   uint64
	nodeIP string // the address of every node; if empty, each node has its own

	nodePool pool
	podPool  pool // for nodes without a pod range

	mu sync.Mutex
	// owners maps addresses to their owners. It is one map for all ranges, because they may overlap.
	owners map[netip.Addr]types.UID
	nodes  map[string]*nodeAddresses
	pods   map[types.UID]*podAddresses
}

type nodeAddresses struct {
	uid    types.UID
	own    []string     // from the node's status
	given  []netip.Addr // assigned from nodePool
	ranges []pool       // from its spec.podCIDRs
}

type podAddresses struct {
	taken []netip.Addr
	texts []string
}

func newAddresses(seed uint64, nodeIP string, nodeCIDR, podCIDR netip.Prefix) *addresses {
	return &addresses{
		seed: seed, nodeIP: nodeIP,
		nodePool: newPool(nodeCIDR), podPool: newPool(podCIDR),
		owners: map[netip.Addr]types.UID{},
		nodes:  map[string]*nodeAddresses{},
		pods:   map[types.UID]*podAddresses{},
	}
}

// observeNode records the addresses and ranges of a node; n is nil if the node was deleted.
func (a *addresses) observeNode(uid types.UID, name string, n *corev1.Node) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.nodes[name]
	if n == nil {
		if known != nil && known.uid == uid {
			for _, addr := range known.given {
				a.release(addr, uid)
			}
			delete(a.nodes, name)
		}
		return
	}
	if known == nil || known.uid != uid {
		known = &nodeAddresses{uid: uid}
		a.nodes[name] = known
	}
	known.own = known.own[:0]
	for _, addr := range n.Status.Addresses {
		if addr.Type != corev1.NodeInternalIP {
			continue
		}
		known.own = append(known.own, addr.Address)
		if ip, err := netip.ParseAddr(addr.Address); err == nil && a.claim(ip, uid) && !slices.Contains(known.given, ip) {
			known.given = append(known.given, ip)
		}
	}
	if known.ranges == nil {
		known.ranges = rangesOf(n)
	}
}

// rangesOf returns the pools of a node's pod ranges, one for each IP family.
func rangesOf(n *corev1.Node) []pool {
	cidrs := n.Spec.PodCIDRs
	if len(cidrs) == 0 && n.Spec.PodCIDR != "" {
		cidrs = []string{n.Spec.PodCIDR}
	}
	var out []pool
	for _, text := range cidrs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			out = append(out, newPool(prefix))
		}
	}
	return out
}

// observePod records the addresses of a pod; p is nil if the pod was deleted.
func (a *addresses) observePod(uid types.UID, p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		if known := a.pods[uid]; known != nil {
			a.releaseAll(known, uid)
			delete(a.pods, uid)
		}
		return
	}
	if p.Spec.HostNetwork || p.Status.PodIP == "" || a.pods[uid] != nil {
		return
	}
	known := &podAddresses{}
	texts := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		if !slices.Contains(texts, ip.IP) {
			texts = append(texts, ip.IP)
		}
	}
	for _, text := range texts {
		known.texts = append(known.texts, text)
		if ip, err := netip.ParseAddr(text); err == nil && a.claim(ip, uid) {
			known.taken = append(known.taken, ip)
		}
	}
	a.pods[uid] = known
}

// nodeIPs returns the addresses of a node: its own, otherwise the one that all nodes share, otherwise one that
// is assigned from the range of nodes.
func (a *addresses) nodeIPs(name string) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := a.nodes[name]
	switch {
	case n != nil && len(n.own) > 0:
		return slices.Clone(n.own), nil
	case a.nodeIP != "":
		return []string{a.nodeIP}, nil
	case n == nil:
		return nil, fmt.Errorf("node %s is unknown", name)
	case len(n.given) == 0:
		addr, ok := a.take(a.nodePool, "node address", n.uid)
		if !ok {
			return nil, fmt.Errorf("no free node address in %s", a.nodePool.prefix)
		}
		n.given = append(n.given, addr)
	}
	return []string{n.given[0].String()}, nil
}

// podIPs returns the addresses of a pod, and assigns them if it has none.
func (a *addresses) podIPs(uid types.UID, node string) ([]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.pods[uid]; known != nil {
		return slices.Clone(known.texts), nil
	}
	pools := []pool{a.podPool}
	if n := a.nodes[node]; n != nil && len(n.ranges) > 0 {
		pools = n.ranges
	}
	fresh := &podAddresses{}
	for _, from := range pools {
		addr, ok := a.take(from, "pod address", uid)
		if !ok {
			a.releaseAll(fresh, uid)
			return nil, fmt.Errorf("no free pod address in %s", from.prefix)
		}
		fresh.taken = append(fresh.taken, addr)
		fresh.texts = append(fresh.texts, addr.String())
	}
	a.pods[uid] = fresh
	return slices.Clone(fresh.texts), nil
}

// take assigns the first free address of the range, starting at the owner's own place and wrapping around. It
// fails only if the range is full.
func (a *addresses) take(from pool, actor string, owner types.UID) (netip.Addr, bool) {
	start := uint64(stage.Draw(a.seed, owner, actor, 0) * float64(from.count))
	for i := range from.count {
		addr := from.at(from.first + (start+i)%from.count)
		if _, used := a.owners[addr]; !used {
			a.owners[addr] = owner
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// claim records the owner of an address, unless it has another owner.
func (a *addresses) claim(addr netip.Addr, owner types.UID) bool {
	if now, used := a.owners[addr]; used {
		return now == owner
	}
	a.owners[addr] = owner
	return true
}

func (a *addresses) releaseAll(of *podAddresses, owner types.UID) {
	for _, addr := range of.taken {
		a.release(addr, owner)
	}
}

// release makes an address free if owner has it.
func (a *addresses) release(addr netip.Addr, owner types.UID) {
	if a.owners[addr] == owner {
		delete(a.owners, addr)
	}
}

// pool is a range of addresses.
type pool struct {
	prefix netip.Prefix
	first  uint64 // offset of the first address that can be assigned
	count  uint64 // how many addresses can be assigned
}

// newPool excludes, from ranges larger than four, the network address, the one after it (by custom the
// gateway) and IPv4's broadcast address. Of very large ranges it uses the first 2^32 addresses.
func newPool(prefix netip.Prefix) pool {
	prefix = prefix.Masked()
	p := pool{prefix: prefix, count: uint64(1) << min(prefix.Addr().BitLen()-prefix.Bits(), 32)}
	if p.count > 4 {
		p.first, p.count = 2, p.count-2
		if prefix.Addr().Is4() {
			p.count--
		}
	}
	return p
}

// at returns the address at an offset from the start of the range.
func (p pool) at(offset uint64) netip.Addr {
	if p.prefix.Addr().Is4() {
		b := p.prefix.Addr().As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(offset))
		return netip.AddrFrom4(b)
	}
	b := p.prefix.Addr().As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+offset)
	return netip.AddrFrom16(b)
}
