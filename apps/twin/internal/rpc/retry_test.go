package rpc

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var policy = RetryPolicy{AttemptTimeout: 750 * time.Millisecond, MaxAttempts: 3, InitialBackoff: 50 * time.Millisecond, Multiplier: 2}

// slow answers after its time, or with the deadline's error.
func slow(takes time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

func TestEveryAttemptHasItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, attempts := time.Now(), 0
		err := policy.Do(t.Context(), slow(time.Hour), func(error) { attempts++ })
		if status.Code(err) != codes.DeadlineExceeded || attempts != 3 {
			t.Errorf("%v after %d attempts", err, attempts)
		}
		// Three deadlines, a backoff of 50 ms and one of 100 ms.
		if took := time.Since(begin); took != 3*750*time.Millisecond+150*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestOnlySomeFailuresAreTriedAgain(t *testing.T) {
	for code, want := range map[codes.Code]int{
		codes.OK: 1, codes.DeadlineExceeded: 3, codes.Unavailable: 3, codes.ResourceExhausted: 3,
		codes.Internal: 1, codes.InvalidArgument: 1, codes.Canceled: 1, codes.Unimplemented: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts := 0
			err := policy.Do(t.Context(), func(context.Context) error { return status.Error(code, "x") }, func(error) { attempts++ })
			if status.Code(err) != code || attempts != want {
				t.Errorf("%v: %v after %d attempts, wanted %d", code, err, attempts, want)
			}
		})
	}
}

func TestStopsWhenTheCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		attempts := 0
		err := policy.Do(ctx, slow(time.Hour), func(error) { attempts++ })
		if err == nil || attempts != 2 || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%v after %d attempts", err, attempts)
		}
	})
}

func TestJitterStaysInItsBounds(t *testing.T) {
	jittered := policy
	jittered.Jitter = .2
	for range 1000 {
		if wait := jittered.backoff(2); wait < 80*time.Millisecond || wait > 120*time.Millisecond {
			t.Fatalf("backoff %v", wait)
		}
	}
}

func TestZeroAttemptsMeansOne(t *testing.T) {
	attempts := 0
	err := RetryPolicy{AttemptTimeout: time.Second}.Do(t.Context(), func(context.Context) error { return nil }, func(error) { attempts++ })
	if err != nil || attempts != 1 {
		t.Errorf("%v after %d attempts", err, attempts)
	}
}
