// Records of the audit, those of the past and each new one; for who may administer.
import { useEffect, useState } from "preact/hooks";
import { may, read } from "./connection.ts";

export interface AuditRecord {
  seq: number;
  time: number;
  actor: string;
  role: string;
  door: string;
  command: string;
  arguments?: Record<string, any>;
  decision: string;
  reason: string;
  outcome: string;
  seconds: number;
  session?: string;
  call?: string;
  result?: Record<string, any>;
}

const PAST = 1000;

/** The newest records that are wanted, the newest first; null: not known yet, or not ours to see. */
export function useRecords(
  isWanted: (record: AuditRecord) => boolean,
  key: string,
  most = 100,
): readonly AuditRecord[] | null {
  const [found, setFound] = useState<readonly AuditRecord[] | null>(null);
  useEffect(() => {
    setFound(null);
    if (!may("administer")) return;
    const abort = new AbortController();
    let kept: AuditRecord[] = [];
    let last = 0;
    let frame = 0;
    const show = () => {
      frame = 0;
      setFound([...kept].reverse());
    };
    read(
      "audit",
      { limit: PAST, follow: true },
      {
        signal: abort.signal,
        onItem: (record: AuditRecord) => {
          // After a lost connection the past is told once more.
          if (record.seq <= last) return;
          last = record.seq;
          if (isWanted(record)) kept = [...kept.slice(1 - most), record];
          frame ||= requestAnimationFrame(show);
        },
      },
    ).catch(() => undefined);
    return () => {
      abort.abort();
      cancelAnimationFrame(frame);
    };
  }, [key]);
  return found;
}
