// Package admission holds requests back in a bounded queue and lets them through at a fixed rate, as a backend with
// a fixed capacity does.
package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const timerSlack = 20 * time.Millisecond

// ErrFull means that the queue had no place left.
var ErrFull = errors.New("request queue is full")

// Queue lets waiting requests through first come, first served. A request whose caller has given up keeps its place
// and uses up its token: the queue does not look at callers.
type Queue struct {
	rate     int
	capacity int
	waiting  chan *ticket

	received, rejected, expired atomic.Int64
}

type ticket struct {
	caller  context.Context
	granted chan struct{}
}

// New makes a queue with a rate in requests per second. A rate or a capacity of zero or less means no admission
// control: every request passes at once.
func New(rate, capacity int) *Queue {
	queue := &Queue{rate: rate, capacity: capacity}
	if queue.limits() {
		queue.waiting = make(chan *ticket, capacity)
		go queue.serve()
	}
	return queue
}

// Acquire waits for a token. It returns ErrFull at once when the queue is full, and the caller's error when the
// caller gives up while it waits.
func (q *Queue) Acquire(ctx context.Context) error {
	q.received.Add(1)
	if !q.limits() {
		return nil
	}
	mine := &ticket{caller: ctx, granted: make(chan struct{})}
	select {
	case q.waiting <- mine:
	default:
		q.rejected.Add(1)
		return ErrFull
	}
	select {
	case <-mine.granted:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Depth is the number of requests that wait, those without a caller included.
func (q *Queue) Depth() int { return len(q.waiting) }

// Rate is the configured tokens per second.
func (q *Queue) Rate() int { return q.rate }

// Capacity is the configured length.
func (q *Queue) Capacity() int { return q.capacity }

// Received counts all requests that asked for a token.
func (q *Queue) Received() int64 { return q.received.Load() }

// Rejected counts requests that found the queue full.
func (q *Queue) Rejected() int64 { return q.rejected.Load() }

// Expired counts tokens spent on requests whose caller had given up.
func (q *Queue) Expired() int64 { return q.expired.Load() }

func (q *Queue) limits() bool { return q.rate > 0 && q.capacity > 0 }

func (q *Queue) serve() {
	interval := time.Second / time.Duration(q.rate)
	next := time.Now()
	for mine := range q.waiting {
		// Tokens do not pile up while nobody waits; only a late timer is made up for.
		now := time.Now()
		if now.Sub(next) > timerSlack {
			next = now
		}
		time.Sleep(next.Sub(now))
		next = next.Add(interval)
		if mine.caller.Err() != nil {
			q.expired.Add(1)
		}
		close(mine.granted)
	}
}
