package proxy

import "sync"

// bufferSize is the size of a buffer for copying, in bytes.
const bufferSize = 32 << 10

// pool provides reusable buffers for copying. It implements httputil.BufferPool.
type pool struct{ sync.Pool }

var buffers = &pool{sync.Pool{New: func() any { return new([bufferSize]byte) }}}

// Get implements httputil.BufferPool.
func (p *pool) Get() []byte { return p.Pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (p *pool) Put(b []byte) { p.Pool.Put((*[bufferSize]byte)(b)) }
