package apiserver

import (
	"context"
	"net"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"

	"github.com/rehearse-k8s/rehearse/internal/store"
)

// etcdKV implements the two etcd calls of the node-port allocator: read one key, and put one key if its
// revision is still the one that was read. It works on the memory store's own revisions, over an in-memory
// connection.
type etcdKV struct {
	pb.UnimplementedKVServer
	pb.UnimplementedMaintenanceServer
	world *store.World
	pipe  *bufconn.Listener
}

func serveEtcdKV(w *store.World) *etcdKV {
	kv := &etcdKV{world: w, pipe: bufconn.Listen(64 << 10)}
	s := grpc.NewServer()
	pb.RegisterKVServer(s, kv)
	pb.RegisterMaintenanceServer(s, kv)
	go func() { _ = s.Serve(kv.pipe) }() // ends with the process; holds no socket
	return kv
}

// lookup is an egress selector that directs every dial of the storage layer to this server.
func (kv *etcdKV) lookup(egressselector.NetworkContext) (utilnet.DialFunc, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) { return kv.pipe.DialContext(ctx) }, nil
}

func (kv *etcdKV) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{Revision: kv.world.Revision()}
}

// Status reports the etcd version for which the storage layer was built: the layer asks every etcd for it.
func (kv *etcdKV) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Header: kv.header(), Version: etcdversion.Version}, nil
}

// Range reads one key at the newest revision.
func (kv *etcdKV) Range(_ context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if len(r.RangeEnd) > 0 || r.Revision > 0 {
		return nil, status.Errorf(codes.Unimplemented, "the memory store's etcd interface reads only single keys at the newest revision, not %q..%q at %d", r.Key, r.RangeEnd, r.Revision)
	}
	return kv.get(string(r.Key)), nil
}

func (kv *etcdKV) get(key string) *pb.RangeResponse {
	out := &pb.RangeResponse{Header: kv.header()}
	value, mod, create, version, ok := kv.world.RawGet(key)
	if ok {
		out.Kvs = []*mvccpb.KeyValue{{Key: []byte(key), Value: value, ModRevision: mod, CreateRevision: create, Version: version}}
		out.Count = 1
	}
	return out
}

// Txn puts one key if its mod revision is the expected one; otherwise it answers with the current value, if
// requested.
func (kv *etcdKV) Txn(_ context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if len(r.Compare) != 1 || len(r.Success) != 1 || r.Success[0].GetRequestPut() == nil ||
		r.Compare[0].Target != pb.Compare_MOD || r.Compare[0].Result != pb.Compare_EQUAL {
		return nil, status.Error(codes.Unimplemented, "the memory store's etcd interface supports only one transaction: put a key if its mod revision is unchanged")
	}
	put := r.Success[0].GetRequestPut()
	rev, ok := kv.world.RawPut(string(put.Key), put.Value, r.Compare[0].GetModRevision())
	if ok {
		h := &pb.ResponseHeader{Revision: rev}
		return &pb.TxnResponse{Header: h, Succeeded: true, Responses: []*pb.ResponseOp{{
			Response: &pb.ResponseOp_ResponsePut{ResponsePut: &pb.PutResponse{Header: h}},
		}}}, nil
	}
	out := &pb.TxnResponse{Header: kv.header()}
	for _, op := range r.Failure {
		get := op.GetRequestRange()
		if get == nil {
			return nil, status.Error(codes.Unimplemented, "the memory store's etcd interface can only read when a put's condition fails")
		}
		out.Responses = append(out.Responses, &pb.ResponseOp{
			Response: &pb.ResponseOp_ResponseRange{ResponseRange: kv.get(string(get.Key))},
		})
	}
	return out, nil
}
