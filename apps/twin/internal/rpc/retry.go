package rpc

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// RetryPolicy bounds every attempt of a call and says how often and when it is tried again.
type RetryPolicy struct {
	AttemptTimeout time.Duration
	MaxAttempts    int
	InitialBackoff time.Duration
	Multiplier     float64
	Jitter         float64 // share of the backoff by which it varies, 0..1
}

// Attempt is told of every attempt's end.
type Attempt func(err error)

// Do makes the call until it succeeds, fails for good, or the attempts are used up. It returns the last error. It
// stops early when ctx ends: nobody waits for the answer any more.
func (p RetryPolicy) Do(ctx context.Context, call func(ctx context.Context) error, each Attempt) error {
	var err error
	for attempt := range max(p.MaxAttempts, 1) {
		if attempt > 0 && !pause(ctx, p.backoff(attempt)) {
			return err
		}
		err = p.once(ctx, call)
		each(err)
		if err == nil || !Retryable(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (p RetryPolicy) once(ctx context.Context, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.AttemptTimeout)
	defer cancel()
	return call(ctx)
}

func (p RetryPolicy) backoff(attempt int) time.Duration {
	base := float64(p.InitialBackoff) * math.Pow(p.Multiplier, float64(attempt-1))
	return time.Duration(base * (1 + p.Jitter*(2*rand.Float64()-1)))
}

// Retryable tells whether another attempt may help: the peer was late, away or full.
func Retryable(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted:
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
