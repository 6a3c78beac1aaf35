import { render } from 'preact';
import { App } from './frame/app.tsx';

const root = document.querySelector('#root');
if (root !== null) render(<App />, root);
