// Is everything fine? If not: what, why, and what now?
import type { JSX } from "preact";
import { isLoaded, services } from "../state/services.ts";
import { State } from "../ui/icon.tsx";

export default function Overview(): JSX.Element {
  const all = [...services.value];
  return (
    <div class="stack" data-page="overview" data-state={isLoaded.value ? "shown" : "loading"}>
      <div class="page-head">
        <h1>Overview</h1>
      </div>
      {isLoaded.value && all.length === 0 && (
        <div class="empty">
          <p>No services yet. Declare one in holdfast.yaml, or run a command:</p>
          <pre class="card">holdfast run --name web -- python3 -m http.server</pre>
        </div>
      )}
      {all.length > 0 && (
        <table class="plain card" id="services">
          <thead>
            <tr>
              <th scope="col">Service</th>
              <th scope="col">State</th>
              <th scope="col" class="num">Restarts</th>
              <th scope="col">Why</th>
            </tr>
          </thead>
          <tbody>
            {all.map(([name, service]) => (
              <tr key={name}>
                <td>{name}</td>
                <td>
                  <State state={service.status} />
                </td>
                <td class="num">{service.restart_count}</td>
                <td class="dim">{service.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}
